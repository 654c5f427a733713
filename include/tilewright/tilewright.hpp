// Tilewright's serving interface in C++: what tilewright.h says, with owners for its handles and
// exceptions for its statuses. Everything here is inline over the C functions, so that no C++ type
// crosses the library's boundary; what is said there of threads, shapes and units holds here.
//
//   tw::Library library("kernels.db");
//   tw::Prepared prepared = library.prepare({.specs = {spec}, .threads = 4});
//   tw::Kernel kernel = prepared.find(spec);
//   tw::Weights weights = kernel.pack({{"B", &b}});
//   tw::Pool pool(4);
//   kernel.launch({.tensors = {&a, nullptr, &c}, .weights = &weights, .executor = pool.executor()});
#ifndef TILEWRIGHT_TILEWRIGHT_HPP_
#define TILEWRIGHT_TILEWRIGHT_HPP_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tilewright/tilewright.h"

namespace tw {

// A status other than TW_OK, with its text.
class Error : public std::runtime_error {
 public:
  explicit Error(tw_status status) : std::runtime_error(tw_last_error()), status_(status) {}
  tw_status status() const noexcept { return status_; }

 private:
  tw_status status_;
};

inline void check(tw_status status) {
  if (status != TW_OK) throw Error(status);
}

namespace detail {
template <class Handle, void (*kFree)(Handle*) TW_NOEXCEPT>
struct Freed {
  void operator()(Handle* handle) const noexcept { kFree(handle); }
};
template <class Handle, void (*kFree)(Handle*) TW_NOEXCEPT>
using Owned = std::unique_ptr<Handle, Freed<Handle, kFree>>;

// A list of the C interface.
template <class T, class Handle>
std::vector<T> all_of(const Handle* handle, size_t (*count)(const Handle*),
                      tw_status (*at)(const Handle*, size_t, T*)) {
  std::vector<T> all(count(handle), TW_INIT(T));
  for (size_t i = 0; i < all.size(); ++i) check(at(handle, i, &all[i]));
  return all;
}
}  // namespace detail

// Threads of the library's.
class Pool {
 public:
  explicit Pool(int threads) {
    tw_pool* made = nullptr;
    check(tw_pool_start(threads, &made));
    handle_.reset(made);
  }
  const tw_executor* executor() const noexcept { return tw_pool_executor(handle_.get()); }

 private:
  detail::Owned<tw_pool, tw_pool_stop> handle_;
};

// Weights as one kernel reads them.
class Weights {
 public:
  explicit Weights(tw_weights* handle) : handle_(handle) {}
  const tw_weights* get() const noexcept { return handle_.get(); }
  size_t bytes() const noexcept { return tw_weights_bytes(handle_.get()); }
  std::string identity() const { return tw_weights_identity(handle_.get()); }

 private:
  detail::Owned<tw_weights, tw_free_weights> handle_;
};

// Weights that were read from a file, as operands.
class Operands {
 public:
  explicit Operands(tw_operands* handle) : handle_(handle) {}
  // As Kernel::pack() takes them; they live as long as this.
  std::vector<tw_named_tensor> tensors() const {
    const tw_named_tensor* first = tw_operands_tensors(handle_.get());
    return {first, first + tw_operands_count(handle_.get())};
  }
  // The order of the rows, where it is not their own; else empty.
  std::vector<int64_t> order() const {
    size_t count = 0;
    const int64_t* first = tw_operands_order(handle_.get(), &count);
    return {first, first + count};
  }

 private:
  detail::Owned<tw_operands, tw_free_operands> handle_;
};

struct Launch {
  std::initializer_list<const DLTensor*> tensors;  // an operand each; null where it is packed
  const Weights* weights = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  const tw_executor* executor = nullptr;
  void* stream = nullptr;
};

// The kernels that serve one spec. A view: it lives as long as the Prepared that it came from.
class Kernel {
 public:
  explicit Kernel(const tw_kernel* handle) : handle_(handle) {}
  const tw_kernel* get() const noexcept { return handle_; }

  // Inputs in the order of the operator, then the output.
  std::vector<tw_operand> operands() const {
    return detail::all_of(handle_, tw_operand_count, tw_operand_at);
  }
  // The dynamic dimensions of the spec.
  std::vector<tw_dim> dims() const { return detail::all_of(handle_, tw_dim_count, tw_dim_at); }
  // How the axis follows from them.
  tw_extent extent(size_t operand, size_t axis) const {
    auto found = TW_INIT(tw_extent);
    check(tw_extent_at(handle_, operand, axis, &found));
    return found;
  }
  size_t workspace_bytes(int threads) const {
    size_t bytes = 0;
    check(tw_workspace_bytes(handle_, threads, &bytes));
    return bytes;
  }
  std::string identity() const { return tw_kernel_identity(handle_); }

  Weights pack(const std::vector<tw_named_tensor>& tensors,
               const tw_executor* executor = nullptr) const {
    tw_weights* made = nullptr;
    check(tw_pack_weights(handle_, tensors.data(), tensors.size(), executor, &made));
    return Weights(made);
  }

  // Allocates nothing.
  void launch(const Launch& launch) const {
    auto args = TW_INIT(tw_launch_args);
    args.tensors = launch.tensors.begin();
    args.tensor_count = launch.tensors.size();
    args.weights = launch.weights == nullptr ? nullptr : launch.weights->get();
    args.workspace = launch.workspace;
    args.workspace_bytes = launch.workspace_bytes;
    args.executor = launch.executor;
    args.stream = launch.stream;
    check(tw_launch(handle_, &args));
  }

 private:
  const tw_kernel* handle_;
};

// Kernels that are loaded.
class Prepared {
 public:
  explicit Prepared(tw_prepared* handle) : handle_(handle) {}

  std::vector<tw_report> report() const {
    return detail::all_of(handle_.get(), tw_report_count, tw_report_at);
  }
  // Throws Error (TW_ERROR_MISS) where no kernel serves the spec.
  Kernel find(const std::string& spec) const {
    const tw_kernel* kernel = nullptr;
    check(tw_find(handle_.get(), spec.c_str(), &kernel));
    return Kernel(kernel);
  }

 private:
  detail::Owned<tw_prepared, tw_release> handle_;
};

struct PrepareOptions {
  std::vector<std::string> specs;
  std::vector<std::pair<std::string, std::vector<int64_t>>> sizes = {};  // of dynamic dimensions
  std::string target = "native";
  int device = 0;
  int threads = 0;  // for which kernels were tuned; 0: any number
};

// A database in memory.
class Library {
 public:
  using Log = std::function<void(const std::string& line)>;

  // Kernels that may run besides those that were made here: signed by one of these public keys, or
  // of the serving file with this SHA-256. All in hexadecimal digits.
  struct Trust {
    std::vector<std::string> keys = {};
    std::string pin = {};
  };

  // Lines of the log go to standard error where `log` is empty.
  explicit Library(const std::string& path, const Log& log = {}) : Library(path, log, Trust{}) {}
  Library(const std::string& path, const Log& log, const Trust& trust)
      : log_(std::make_unique<Log>(log)) {
    std::vector<const char*> keys;
    const tw_open_options options = open_options(*log_, trust, keys);
    tw_library* opened = nullptr;
    check(tw_open(path.c_str(), &options, &opened));
    handle_.reset(opened);
  }

  // The same for the C interface. It holds addresses of all three.
  static tw_open_options open_options(Log& log, const Trust& trust,
                                      std::vector<const char*>& keys) {
    for (const std::string& key : trust.keys) keys.push_back(key.c_str());
    auto options = TW_INIT(tw_open_options);
    options.trust = keys.data();
    options.trust_count = keys.size();
    options.pin = trust.pin.empty() ? nullptr : trust.pin.c_str();
    if (log) {
      options.log = [](void* user, const char* line) { (*static_cast<Log*>(user))(line); };
      options.log_user = &log;
    }
    return options;
  }

  Prepared prepare(const PrepareOptions& asked) const {
    std::vector<const char*> specs;
    for (const std::string& spec : asked.specs) specs.push_back(spec.c_str());
    std::vector<tw_sizes> sizes;
    for (const auto& [dim, values] : asked.sizes) {
      sizes.push_back({dim.c_str(), values.data(), values.size()});
    }
    auto options = TW_INIT(tw_prepare_options);
    options.specs = specs.data();
    options.spec_count = specs.size();
    options.sizes = sizes.data();
    options.size_count = sizes.size();
    options.target = asked.target.c_str();
    options.device = asked.device;
    options.threads = asked.threads;
    tw_prepared* made = nullptr;
    check(tw_prepare(handle_.get(), &options, &made));
    return Prepared(made);
  }

 private:
  std::unique_ptr<Log> log_;  // at an address of its own: the library calls it
  detail::Owned<tw_library, tw_close> handle_;
};

// A model that "tune-cli compile" wrote. One thread at a time may use it.
class Model {
 public:
  // `log` and `trust` as Library has them, `threads` as PrepareOptions.
  explicit Model(const std::string& path, int threads = 0, const Library::Log& log = {})
      : Model(path, threads, log, Library::Trust{}) {}
  // `states_of`: a model whose states this one uses, too.
  Model(const std::string& path, int threads, const Library::Log& log, const Library::Trust& trust,
        const Model* states_of = nullptr)
      : log_(std::make_unique<Library::Log>(log)) {
    std::vector<const char*> keys;
    const tw_open_options open = Library::open_options(*log_, trust, keys);
    auto options = TW_INIT(tw_model_options);
    options.open = &open;
    options.threads = threads;
    options.states_of = states_of == nullptr ? nullptr : states_of->handle_.get();
    tw_model* opened = nullptr;
    check(tw_model_open(path.c_str(), &options, &opened));
    handle_.reset(opened);
  }

  std::vector<tw_port> inputs() const {
    return detail::all_of(handle_.get(), tw_model_input_count, tw_model_input_at);
  }
  std::vector<tw_port> outputs() const {
    return detail::all_of(handle_.get(), tw_model_output_count, tw_model_output_at);
  }
  // States, and their memory.
  std::vector<std::pair<tw_port, void*>> states() const {
    std::vector<std::pair<tw_port, void*>> all(tw_model_state_count(handle_.get()),
                                               {TW_INIT(tw_port), nullptr});
    for (size_t i = 0; i < all.size(); ++i) {
      check(tw_model_state_at(handle_.get(), i, &all[i].first, &all[i].second));
    }
    return all;
  }
  std::vector<tw_model_node> nodes() const {
    return detail::all_of(handle_.get(), tw_model_node_count, tw_model_node_at);
  }

  // The shape that an output has in a run on these inputs, of which only types and shapes count.
  std::vector<int64_t> output_shape(const std::vector<const DLTensor*>& inputs,
                                    size_t output) const {
    auto port = TW_INIT(tw_port);
    check(tw_model_output_at(handle_.get(), output, &port));
    std::vector<int64_t> shape(static_cast<size_t>(port.ndim));
    check(tw_model_output_shape(handle_.get(), inputs.data(), inputs.size(), output, shape.data()));
    return shape;
  }

  // The shape that an output had in the last run, the elements of which lie compactly at the tensor's beginning.
  std::vector<int64_t> last_output_shape(size_t output) const {
    auto port = TW_INIT(tw_port);
    check(tw_model_output_at(handle_.get(), output, &port));
    std::vector<int64_t> shape(static_cast<size_t>(port.ndim));
    check(tw_model_last_output_shape(handle_.get(), output, shape.data()));
    return shape;
  }

  // A tensor for each port, in their order. `profile` keeps the seconds of nodes(). `stream` is a GPU's.
  void run(const std::vector<const DLTensor*>& inputs, const std::vector<const DLTensor*>& outputs,
           const tw_executor* executor = nullptr, bool profile = false, void* stream = nullptr) {
    auto args = TW_INIT(tw_model_args);
    args.inputs = inputs.data();
    args.input_count = inputs.size();
    args.outputs = outputs.data();
    args.output_count = outputs.size();
    args.executor = executor;
    args.profile = profile ? 1 : 0;
    args.stream = stream;
    check(tw_model_run(handle_.get(), &args));
  }

 private:
  std::unique_ptr<Library::Log> log_;  // at an address of its own: the library calls it
  detail::Owned<tw_model, tw_model_close> handle_;
};

// A safetensors or GGUF file, or the index of several.
class WeightFile {
 public:
  explicit WeightFile(const std::string& path) {
    tw_weight_file* opened = nullptr;
    check(tw_open_weights(path.c_str(), &opened));
    handle_.reset(opened);
  }
  std::vector<tw_stored_tensor> tensors() const {
    return detail::all_of(handle_.get(), tw_stored_tensor_count, tw_stored_tensor_at);
  }
  std::vector<tw_stored_layer> layers() const {
    return detail::all_of(handle_.get(), tw_stored_layer_count, tw_stored_layer_at);
  }
  // A tensor or a quantized layer, in the form of the kernel's operand. `gptq_format` as in
  // tw_read_options; empty: the configuration beside the file decides.
  Operands read(const std::string& name, const Kernel& kernel, const std::string& operand = "B",
                const std::string& gptq_format = "") const {
    return read(name, kernel.get(), operand, gptq_format);
  }
  // The same as it lies in the file.
  Operands read(const std::string& name, const std::string& operand = "B",
                const std::string& gptq_format = "") const {
    return read(name, nullptr, operand, gptq_format);
  }

 private:
  Operands read(const std::string& name, const tw_kernel* kernel, const std::string& operand,
                const std::string& gptq_format) const {
    auto options = TW_INIT(tw_read_options);
    options.operand = operand.c_str();
    options.kernel = kernel;
    options.gptq_format = gptq_format.empty() ? nullptr : gptq_format.c_str();
    tw_operands* made = nullptr;
    check(tw_read_weights(handle_.get(), name.c_str(), &options, &made));
    return Operands(made);
  }

  detail::Owned<tw_weight_file, tw_close_weights> handle_;
};

}  // namespace tw

#endif  // TILEWRIGHT_TILEWRIGHT_HPP_
