#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "runtime/cuda/libraries.h"
#include "runtime/cuda/peers/cublas_lt_functions.h"
#include "runtime/cuda/peers/gpu_peer.h"
#include "runtime/error.h"

namespace tilewright::cuda {
// Each peer takes all names of one C interface, and the interfaces share names.
namespace cublas_lt {
namespace {

constexpr int kCandidates = 16;  // that the heuristics are asked for, and that are timed
constexpr int64_t kWorkspaceBytes = 64 << 20;

template <class F>
bool resolve(void* handle, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(handle, name));
  return function != nullptr;
}

bool resolve_all(void* h, Functions& f) {
  return resolve(h, "cublasLtCreate", f.create) && resolve(h, "cublasLtDestroy", f.destroy) &&
         resolve(h, "cublasLtGetVersion", f.version) &&
         resolve(h, "cublasLtGetStatusName", f.status_name) &&
         resolve(h, "cublasLtMatrixLayoutCreate", f.layout_create) &&
         resolve(h, "cublasLtMatrixLayoutSetAttribute", f.layout_set) &&
         resolve(h, "cublasLtMatrixLayoutDestroy", f.layout_destroy) &&
         resolve(h, "cublasLtMatmulDescCreate", f.product_create) &&
         resolve(h, "cublasLtMatmulDescSetAttribute", f.product_set) &&
         resolve(h, "cublasLtMatmulDescDestroy", f.product_destroy) &&
         resolve(h, "cublasLtMatmulPreferenceCreate", f.preference_create) &&
         resolve(h, "cublasLtMatmulPreferenceSetAttribute", f.preference_set) &&
         resolve(h, "cublasLtMatmulPreferenceDestroy", f.preference_destroy) &&
         resolve(h, "cublasLtMatmulAlgoGetHeuristic", f.heuristic) &&
         resolve(h, "cublasLtMatmul", f.matmul);
}

std::optional<int> data_type(ElemType e) {
  switch (e) {
    case ElemType::f64: return kR64F;
    case ElemType::f32: return kR32F;
    case ElemType::f16: return kR16F;
    case ElemType::bf16: return kR16BF;
    case ElemType::f8e4m3: return kR8F_E4M3;
    case ElemType::f8e5m2: return kR8F_E5M2;
    case ElemType::i8: return kR8I;
    case ElemType::i32: return kR32I;
    default: return std::nullopt;
  }
}

// How sums are formed, and the type of the factors alpha and beta.
struct Arithmetic {
  int compute, scale;
};

std::optional<Arithmetic> arithmetic(ElemType acc) {
  switch (acc) {
    case ElemType::f16: return Arithmetic{kCompute16F, kR16F};
    case ElemType::f32: return Arithmetic{kCompute32F, kR32F};
    case ElemType::f64: return Arithmetic{kCompute64F, kR64F};
    case ElemType::i32: return Arithmetic{kCompute32I, kR32I};
    default: return std::nullopt;
  }
}

// One and zero in the type of the factors.
struct Factors {
  alignas(8) unsigned char one[8] = {}, zero[8] = {};
  explicit Factors(int scale) {
    switch (scale) {
      case kR16F: store(uint16_t{0x3c00}); break;
      case kR32I: store(int32_t{1}); break;
      case kR64F: store(1.0); break;
      default: store(1.0f);
    }
  }
  template <class T>
  void store(T value) {
    std::copy_n(reinterpret_cast<const unsigned char*>(&value), sizeof value, one);
  }
};

// An object that the library makes, destroyed with the scope.
class Owned {
 public:
  Owned() = default;
  ~Owned() { reset(); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  Handle* fill(int (*destroy)(Handle)) {
    reset();
    destroy_ = destroy;
    return &handle_;
  }
  Handle get() const { return handle_; }

 private:
  void reset() {
    if (handle_ != nullptr) destroy_(handle_);
    handle_ = nullptr;
  }
  Handle handle_ = nullptr;
  int (*destroy_)(Handle) = nullptr;
};

class CublasLtProblem : public GpuPeerProblem {
 public:
  CublasLtProblem(const Functions& f, Handle library, Device& device, const Product& product,
                  Arithmetic arithmetic)
      : f_(f), library_(library), device_(device), p_(product), factors_(arithmetic.scale),
        workspace_(device, kWorkspaceBytes) {
    describe(arithmetic);
    choose();
  }

  void launch() override { check(launch_with(algorithm_), "cublasLtMatmul"); }
  std::string choice() const override {
    return fmt::format("the best of {} algorithm{}", tried_, tried_ == 1 ? "" : "s");
  }

 private:
  void check(int status, const char* doing) const {
    if (status != 0) {
      throw DeviceError(fmt::format("cuBLASLt: {}: {}", doing, f_.status_name(status)));
    }
  }
  void layout(Owned& to, ElemType type, int64_t rows, int64_t columns, int64_t stride);
  void describe(Arithmetic arithmetic);
  void choose();
  int launch_with(const Algorithm& algorithm);

  const Functions& f_;
  Handle library_;
  Device& device_;
  Product p_;
  Factors factors_;
  DeviceArray workspace_;
  Owned product_, first_, second_, result_;
  Algorithm algorithm_ = {};
  int tried_ = 0;
};

void CublasLtProblem::layout(Owned& to, ElemType type, int64_t rows, int64_t columns,
                             int64_t elements) {
  check(f_.layout_create(to.fill(f_.layout_destroy), data_type(type).value(),
                         static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows),
        "cublasLtMatrixLayoutCreate");
  if (p_.batch == 1) return;
  const auto count = static_cast<int32_t>(p_.batch);
  check(f_.layout_set(to.get(), kBatchCount, &count, sizeof count), "setting the batch");
  check(f_.layout_set(to.get(), kBatchStride, &elements, sizeof elements), "setting the batch");
}

// A row-major matrix is the transposed one by columns: the library computes C^T = B^T A^T.
void CublasLtProblem::describe(Arithmetic arithmetic) {
  check(f_.product_create(product_.fill(f_.product_destroy), arithmetic.compute, arithmetic.scale),
        "cublasLtMatmulDescCreate");
  const int32_t first = p_.trans_b ? kOpT : kOpN, second = p_.trans_a ? kOpT : kOpN;
  check(f_.product_set(product_.get(), kTransA, &first, sizeof first), "setting an operation");
  check(f_.product_set(product_.get(), kTransB, &second, sizeof second), "setting an operation");
  const uint32_t epilogue = p_.bias ? (p_.relu ? kReluBias : kBias) : (p_.relu ? kRelu : kPlain);
  check(f_.product_set(product_.get(), kEpilogue, &epilogue, sizeof epilogue),
        "setting the epilogue");
  if (p_.bias) {
    check(f_.product_set(product_.get(), kBiasPointer, &p_.bias_vector, sizeof p_.bias_vector),
          "setting the bias");
  }
  layout(first_, p_.in, p_.trans_b ? p_.k : p_.n, p_.trans_b ? p_.n : p_.k, p_.b_elements());
  layout(second_, p_.in, p_.trans_a ? p_.m : p_.k, p_.trans_a ? p_.k : p_.m, p_.a_elements());
  layout(result_, p_.out, p_.n, p_.m, p_.c_elements());
}

// Takes the fastest of what the heuristics propose. Throws DeviceError where they propose nothing.
void CublasLtProblem::choose() {
  Owned preference;
  check(f_.preference_create(preference.fill(f_.preference_destroy)),
        "cublasLtMatmulPreferenceCreate");
  const auto workspace = static_cast<size_t>(kWorkspaceBytes);
  check(f_.preference_set(preference.get(), kMaxWorkspace, &workspace, sizeof workspace),
        "setting the workspace");
  Candidate candidates[kCandidates] = {};
  int found = 0;
  check(f_.heuristic(library_, product_.get(), first_.get(), second_.get(), result_.get(),
                     result_.get(), preference.get(), kCandidates, candidates, &found),
        "cublasLtMatmulAlgoGetHeuristic");
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < found; ++i) {
    const Algorithm& algorithm = candidates[i].algorithm;
    if (candidates[i].state != 0 || launch_with(algorithm) != 0) continue;
    device_.wait("running an algorithm of cuBLASLt");
    ++tried_;
    double milliseconds =
        best_milliseconds(device_, [&] { check(launch_with(algorithm), "cublasLtMatmul"); });
    if (milliseconds >= best) continue;
    best = milliseconds;
    algorithm_ = algorithm;
  }
  if (tried_ == 0) throw DeviceError("cuBLASLt: no algorithm for this product");
}

int CublasLtProblem::launch_with(const Algorithm& algorithm) {
  return f_.matmul(library_, product_.get(), factors_.one, device_pointer(p_.b), first_.get(),
                   device_pointer(p_.a), second_.get(), factors_.zero, device_pointer(p_.c),
                   result_.get(), device_pointer(p_.c), result_.get(), &algorithm,
                   device_pointer(workspace_.address()), static_cast<size_t>(kWorkspaceBytes),
                   device_.stream());
}

class CublasLt : public GpuPeer {
 public:
  CublasLt(const Functions& f, Handle library) : f_(f), library_(library) {}
  ~CublasLt() override { f_.destroy(library_); }

  std::string name() const override { return "cublaslt"; }
  std::string version() const override {
    const size_t v = f_.version();
    return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
  }
  std::unique_ptr<GpuPeerProblem> prepare(Device& device, PeerOperands& operands,
                                          std::string& reason) override {
    const Product& p = operands.product();
    auto sums = arithmetic(p.acc);
    if (!data_type(p.in) || !data_type(p.out) || !sums) {
      reason = fmt::format("it has no products of {} summed in {} to {}", to_string(p.in),
                           to_string(p.acc), to_string(p.out));
      return nullptr;
    }
    // Tensor cores take factors of a byte with k innermost only.
    if (bits_of(p.in) == 8) operands.transpose_b(device);
    try {
      return std::make_unique<CublasLtProblem>(f_, library_, device, operands.product(), *sums);
    } catch (const DeviceError& e) {
      reason = e.what();
      return nullptr;
    }
  }

 private:
  Functions f_;
  Handle library_;
};

}  // namespace
}  // namespace cublas_lt

std::unique_ptr<GpuPeer> open_cublas_lt() {
  using namespace cublas_lt;
  void* handle =
      open_first(peer_paths({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}));
  Functions f = {};
  Handle library = nullptr;
  if (handle == nullptr || !resolve_all(handle, f) || f.create(&library) != 0) return nullptr;
  return std::make_unique<CublasLt>(f, library);
}

}  // namespace tilewright::cuda
