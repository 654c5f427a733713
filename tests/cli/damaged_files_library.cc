#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>

#include "tests/cli/damaged_files.h"
#include "tilewright/tilewright.h"

namespace tilewright::damaged {
namespace {

constexpr int64_t kRowsOfARange = 5;

struct Problem : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// An error is an answer if it says something.
bool refused(tw_status status) {
  if (status == TW_OK) return false;
  if (*tw_last_error() == '\0') throw Problem("an error of the library has no message");
  if (std::string(tw_status_name(status)).empty()) throw Problem("a status has no name");
  if (status == TW_ERROR_INTERNAL) throw Problem(std::string("internal: ") + tw_last_error());
  return true;
}

void require(tw_status status, const char* call) {
  if (status != TW_OK) throw Problem(fmt::format("{}: {}", call, tw_last_error()));
}

// A tensor with memory of its own. Sizes that only a launch knows are kRowsOfARange.
class Tensor {
 public:
  explicit Tensor(const tw_operand& operand)
      : shape_(operand.shape, operand.shape + operand.ndim), name_(operand.name) {
    size_t bytes = operand.dtype.bits / 8;
    for (int64_t& extent : shape_) {
      if (extent < 0) extent = kRowsOfARange;
      bytes *= static_cast<size_t>(extent);
    }
    bytes_.reset(static_cast<char*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64)));
    if (bytes_ == nullptr) throw std::bad_alloc();
    std::memset(bytes_.get(), 0, bytes);
    tensor_ = {bytes_.get(), {kDLCPU, 0}, operand.ndim, operand.dtype, shape_.data(), nullptr, 0};
    size_ = bytes;
  }
  template <class T>
  void fill(const std::vector<T>& values) {
    if (values.size() * sizeof(T) != size_)
      throw Problem("operand '" + name_ + "' has other sizes");
    std::memcpy(bytes_.get(), values.data(), size_);
  }
  template <class T>
  bool holds(const std::vector<T>& values) const {
    return values.size() * sizeof(T) == size_ &&
           std::memcmp(bytes_.get(), values.data(), size_) == 0;
  }
  const DLTensor* get() const { return &tensor_; }
  const char* name() const { return name_.c_str(); }

 private:
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::vector<int64_t> shape_;
  std::string name_;
  std::unique_ptr<char, Free> bytes_;
  size_t size_ = 0;
  DLTensor tensor_{};
};

// Values of a spec's operands, and those that its output must have.
struct Case {
  std::vector<std::vector<int8_t>> inputs;
  std::vector<int32_t> wide_input, output;
};

Case case_of(size_t spec, uint64_t seed) {
  if (spec == 1) {
    Case c;
    Draw draw(seed);
    for (int i = 0; i < 100; ++i) {
      c.wide_input.push_back(static_cast<int32_t>(draw.below(2000)) - 1000);
      c.output.push_back(std::max(c.wide_input.back(), 0));
    }
    return c;
  }
  const Integers integers(seed, spec == 0 ? 12 : kRowsOfARange);
  return {{integers.a, integers.b}, {}, integers.c};
}

class Kernel {
 public:
  Kernel(const tw_kernel* kernel, const Case& wanted) : kernel_(kernel), wanted_(wanted) {
    for (size_t i = 0; i < tw_operand_count(kernel); ++i) {
      auto operand = TW_INIT(tw_operand);
      require(tw_operand_at(kernel, i, &operand), "tw_operand_at");
      operands_.push_back(operand);
      tensors_.emplace_back(operand);
      for (int32_t axis = 0; axis < operand.ndim; ++axis) {
        auto extent = TW_INIT(tw_extent);
        require(tw_extent_at(kernel, i, static_cast<size_t>(axis), &extent), "tw_extent_at");
      }
    }
    for (size_t i = 0; i < tw_dim_count(kernel); ++i) {
      auto dim = TW_INIT(tw_dim);
      require(tw_dim_at(kernel, i, &dim), "tw_dim_at");
    }
    const size_t inputs = wanted.wide_input.empty() ? wanted.inputs.size() : 1;
    if (tensors_.size() != inputs + 1) throw Problem("a kernel has other operands");
    if (!wanted.wide_input.empty()) tensors_[0].fill(wanted.wide_input);
    for (size_t i = 0; i < wanted.inputs.size(); ++i) tensors_[i].fill(wanted.inputs[i]);
  }

  // Packs, launches on a pool of the library's, and compares.
  void run() {
    tw_pool* pool = nullptr;
    require(tw_pool_start(1, &pool), "tw_pool_start");
    const tw_executor* executor = tw_pool_executor(pool);
    tw_weights* weights = pack(executor);
    size_t bytes = 0;
    require(tw_workspace_bytes(kernel_, 1, &bytes), "tw_workspace_bytes");
    std::vector<char> workspace(bytes + 64);
    std::vector<const DLTensor*> tensors;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      tensors.push_back(operands_[i].packed == 1 ? nullptr : tensors_[i].get());
    }
    auto args = TW_INIT(tw_launch_args);
    args.tensors = tensors.data();
    args.tensor_count = tensors.size();
    args.weights = weights;
    const auto begin = reinterpret_cast<uintptr_t>(workspace.data());
    args.workspace = workspace.data() + (64 - begin % 64) % 64;
    args.workspace_bytes = bytes;
    args.executor = executor;
    require(tw_launch(kernel_, &args), "tw_launch");
    tw_free_weights(weights);
    tw_pool_stop(pool);
    if (!tensors_.back().holds(wanted_.output)) throw Problem("the kernel gives wrong integers");
  }

 private:
  tw_weights* pack(const tw_executor* executor) {
    std::vector<tw_named_tensor> named;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (operands_[i].packed != 0) named.push_back({tensors_[i].name(), tensors_[i].get()});
    }
    if (named.empty()) return nullptr;
    tw_weights* weights = nullptr;
    require(tw_pack_weights(kernel_, named.data(), named.size(), executor, &weights),
            "tw_pack_weights");
    if (tw_weights_bytes(weights) == 0) throw Problem("packed weights have no bytes");
    if (std::strcmp(tw_weights_identity(weights), tw_kernel_identity(kernel_)) != 0) {
      throw Problem("packed weights are of another kernel");
    }
    return weights;
  }

  const tw_kernel* kernel_;
  const Case& wanted_;
  std::vector<tw_operand> operands_;
  std::vector<Tensor> tensors_;
};

void use_prepared(const tw_prepared* prepared, uint64_t seed) {
  for (size_t i = 0; i < tw_report_count(prepared); ++i) {
    auto line = TW_INIT(tw_report);
    require(tw_report_at(prepared, i, &line), "tw_report_at");
    if (line.outcome != TW_HIT && *line.reason == '\0') throw Problem("a miss has no reason");
  }
  for (size_t i = 0; i < kSpecs.size(); ++i) {
    const tw_kernel* kernel = nullptr;
    if (refused(tw_find(prepared, kSpecs[i].c_str(), &kernel))) continue;
    const Case wanted = case_of(i, seed);
    Kernel(kernel, wanted).run();
  }
}

void use_opened(tw_library* library, uint64_t seed) {
  std::vector<const char*> specs;
  for (const std::string& spec : kSpecs) specs.push_back(spec.c_str());
  auto options = TW_INIT(tw_prepare_options);
  options.specs = specs.data();
  options.spec_count = specs.size();
  options.threads = 1;
  tw_prepared* prepared = nullptr;
  if (refused(tw_prepare(library, &options, &prepared))) return;
  use_prepared(prepared, seed);
  tw_release(prepared);
}

}  // namespace

Integers::Integers(uint64_t seed, int64_t rows) {
  constexpr int64_t kDepth = 24, kColumns = 16;
  Draw draw(seed);
  for (int64_t i = 0; i < rows * kDepth; ++i) a.push_back(static_cast<int8_t>(draw.below(256)));
  for (int64_t i = 0; i < kDepth * kColumns; ++i) b.push_back(static_cast<int8_t>(draw.below(256)));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < kColumns; ++j) {
      int32_t sum = 0;
      for (int64_t k = 0; k < kDepth; ++k) {
        sum += a[static_cast<size_t>(i * kDepth + k)] * b[static_cast<size_t>(k * kColumns + j)];
      }
      c.push_back(sum);
    }
  }
}

std::string use_library(const std::string& path, uint64_t seed) {
  try {
    tw_library* library = nullptr;
    auto options = TW_INIT(tw_open_options);
    if (refused(tw_open(path.c_str(), &options, &library))) return "";
    use_opened(library, seed);
    tw_close(library);
  } catch (const Problem& e) {
    return std::string("the library: ") + e.what();
  }
  return "";
}

}  // namespace tilewright::damaged
