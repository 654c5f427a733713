// One launch from Python: arrays are borrowed, checked, and handed to the library without the GIL.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "python/src/objects.h"

namespace tilewright::python {
namespace {

constexpr size_t kAlignment = 64;  // of a CPU's workspace

// A CUDA stream as its number: an int, or an object of PyTorch, CuPy or cuda.core.
std::optional<uintptr_t> stream_number(const py::object& stream) {
  if (stream.is_none()) return std::nullopt;
  if (py::isinstance<py::int_>(stream)) return stream.cast<uintptr_t>();
  if (py::hasattr(stream, "__cuda_stream__")) {
    return stream.attr("__cuda_stream__")().cast<py::tuple>()[1].cast<uintptr_t>();
  }
  for (const char* name : {"cuda_stream", "ptr"}) {
    if (py::hasattr(stream, name)) return stream.attr(name).cast<uintptr_t>();
  }
  throw Refused(TW_ERROR_ARGUMENT, "stream is a " + std::string(Py_TYPE(stream.ptr())->tp_name) +
                                       "; expected a CUDA stream, its address as an int, or None");
}

struct Freed {
  void operator()(void* memory) const { std::free(memory); }
};

}  // namespace

// The arguments of one launch, with all that they point to.
class Kernel::Call {
 public:
  Call(const Kernel& kernel, const py::object& arrays, const LaunchOptions& options)
      : kernel_(kernel), stream_(stream_number(options.stream)) {
    take_arrays(arrays, options.weights);
    check_outputs();
    if (options.pool != nullptr) pool_ = options.pool->get();
    take_workspace(options.workspace);
    args_.tensors = pointers_.data();
    args_.tensor_count = pointers_.size();
    args_.weights = options.weights == nullptr ? nullptr : options.weights->get();
    args_.executor = pool_ == nullptr ? nullptr : pool_->executor();
    args_.stream = reinterpret_cast<void*>(stream_.value_or(0));  // NOLINT: an address by number
  }

  void run() const {
    {
      py::gil_scoped_release released;
      tw::check(tw_launch(kernel_.kernel_.get(), &args_));
    }
    for (const auto& [array, result] : written_back_) {
      py::module_::import("tilewright._arrays").attr("copy_back")(array, result);
    }
  }

 private:
  void take_arrays(const py::object& arrays, const Weights* weights) {
    const size_t count = kernel_.operands_.size();
    std::vector<py::object> given(count, py::none());
    if (py::isinstance<py::dict>(arrays)) {
      for (const auto& [name, array] : arrays.cast<py::dict>()) {
        given[kernel_.operand_index(name.cast<std::string>())] =
            py::reinterpret_borrow<py::object>(array);
      }
    } else if (py::isinstance<py::list>(arrays) || py::isinstance<py::tuple>(arrays)) {
      if (py::len(arrays) != count) {
        throw Refused(TW_ERROR_ARGUMENT, std::to_string(py::len(arrays)) + " tensors; " +
                                             kernel_.spec_ + " takes " + std::to_string(count) +
                                             ": " + kernel_.operand_names());
      }
      for (size_t i = 0; i < count; ++i) given[i] = arrays[py::int_(i)];
    } else {
      throw Refused(TW_ERROR_ARGUMENT,
                    "expected a list of " + std::to_string(count) +
                        " tensors, or a dict from the names of operands to tensors; got " +
                        Py_TYPE(arrays.ptr())->tp_name);
    }
    tensors_.resize(count);
    pointers_.resize(count, nullptr);
    for (size_t i = 0; i < count; ++i) {
      const tw_operand& operand = kernel_.operands_[i];
      if (given[i].is_none() && weights != nullptr) {
        const auto kept = weights->plain().find(operand.name);
        if (kept != weights->plain().end()) given[i] = kept->second;
      }
      if (given[i].is_none()) continue;
      take_one(i, given[i], weights);
    }
  }

  void take_one(size_t i, py::object given, const Weights* weights) {
    const tw_operand& operand = kernel_.operands_[i];
    // Rows of a weight in act-order meet the columns of the first operand in their order.
    if (i == 0 && weights != nullptr && !weights->order().is_none()) {
      given =
          py::module_::import("tilewright._arrays").attr("take_columns")(given, weights->order());
    }
    Taken taken = kernel_.take(operand, given, stream_, !kernel_.on_gpu_);
    if (operand.role == TW_OUTPUT && !taken.array.is(given)) {
      if (Tensor(given, "operand '" + std::string(operand.name) + "'", stream_).read_only()) {
        refuse_read_only(operand);
      }
      written_back_.emplace_back(given, taken.array);
    }
    tensors_[i].emplace(std::move(taken.tensor));
    pointers_[i] = &tensors_[i]->get();
  }

  [[noreturn]] static void refuse_read_only(const tw_operand& operand) {
    throw Refused(TW_ERROR_TENSOR, "operand '" + std::string(operand.name) +
                                       "': its memory is read-only; expected an array that can be "
                                       "written");
  }

  // Refuses faults that only Python's arrays can have: read-only memory, or one memory under two
  // names.
  void check_outputs() const {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const tw_operand& operand = kernel_.operands_[i];
      if (operand.role != TW_OUTPUT || !tensors_[i]) continue;
      const std::string what = "operand '" + std::string(operand.name) + "': ";
      if (tensors_[i]->read_only()) refuse_read_only(operand);
      for (size_t j = 0; j < tensors_.size(); ++j) {
        if (j == i || !tensors_[j] || !overlap(*tensors_[i], *tensors_[j])) continue;
        throw Refused(TW_ERROR_TENSOR, what + "shares memory with operand '" +
                                           kernel_.operands_[j].name + "'; expected its own");
      }
    }
  }

  // Arrays with gaps are refused by the library anyway.
  static bool overlap(const Tensor& a, const Tensor& b) {
    return a.is_compact() && b.is_compact() && a.begin() < b.begin() + b.bytes() &&
           b.begin() < a.begin() + a.bytes();
  }

  // The caller's; without one, memory for this launch alone. On a GPU the library refuses that.
  void take_workspace(const py::object& given) {
    if (!given.is_none()) {
      workspace_.emplace(given, "workspace", stream_);
      const bool elsewhere = (workspace_->get().device.device_type == kDLCPU) == kernel_.on_gpu_;
      if (elsewhere || workspace_->read_only() || !workspace_->is_compact()) {
        throw Refused(TW_ERROR_MEMORY,
                      "workspace: expected a compact array that can be written, " +
                          std::string(kernel_.on_gpu_ ? "on the kernel's GPU" : "on the CPU"));
      }
      args_.workspace = workspace_->begin();
      args_.workspace_bytes = workspace_->bytes();
      return;
    }
    const int threads = pool_ == nullptr ? 1 : pool_->executor()->threads;
    const size_t needed = kernel_.on_gpu_ ? 0 : kernel_.kernel_.workspace_bytes(threads);
    if (needed == 0) return;
    own_workspace_.reset(
        std::aligned_alloc(kAlignment, (needed + kAlignment - 1) / kAlignment * kAlignment));
    if (own_workspace_ == nullptr) {
      throw Refused(TW_ERROR_MEMORY,
                    "no memory for a workspace of " + std::to_string(needed) + " bytes");
    }
    args_.workspace = own_workspace_.get();
    args_.workspace_bytes = needed;
  }

  const Kernel& kernel_;
  std::optional<uintptr_t> stream_;
  std::vector<std::optional<Tensor>> tensors_;
  std::vector<const DLTensor*> pointers_;
  // Arrays of the caller's that a launch does not write to itself, and what it writes instead.
  std::vector<std::pair<py::object, py::object>> written_back_;
  std::shared_ptr<const tw::Pool> pool_;  // may be closed meanwhile
  std::optional<Tensor> workspace_;
  std::unique_ptr<void, Freed> own_workspace_;
  tw_launch_args args_ = TW_INIT(tw_launch_args);
};

void Kernel::launch(const py::object& arrays, const LaunchOptions& options) const {
  Call(*this, arrays, options).run();
}

}  // namespace tilewright::python
