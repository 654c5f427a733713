#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/cuda/libraries.h"
#include "runtime/cuda/peers/cusparse_lt_functions.h"
#include "runtime/cuda/peers/gpu_peer.h"
#include "runtime/error.h"

namespace tilewright::cuda {
// Each peer takes all names of one C interface, and the interfaces share names.
namespace cusparse_lt {
namespace {

constexpr int kLeastVersion = 600;  // 0.6: the numbers of types of sums are of today's order
constexpr uint32_t kAlignment = 16;

template <class F>
bool resolve(void* handle, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(handle, name));
  return function != nullptr;
}

bool resolve_all(void* h, Functions& f) {
  return resolve(h, "cusparseLtInit", f.init) && resolve(h, "cusparseLtDestroy", f.destroy) &&
         resolve(h, "cusparseLtGetVersion", f.version) &&
         resolve(h, "cusparseLtGetErrorName", f.error_name) &&
         resolve(h, "cusparseLtDenseDescriptorInit", f.dense_matrix) &&
         resolve(h, "cusparseLtStructuredDescriptorInit", f.sparse_matrix) &&
         resolve(h, "cusparseLtMatDescriptorDestroy", f.matrix_destroy) &&
         resolve(h, "cusparseLtMatmulDescriptorInit", f.product) &&
         resolve(h, "cusparseLtMatmulAlgSelectionInit", f.algorithm) &&
         resolve(h, "cusparseLtMatmulPlanInit", f.plan) &&
         resolve(h, "cusparseLtMatmulPlanDestroy", f.plan_destroy) &&
         resolve(h, "cusparseLtMatmulGetWorkspace", f.workspace) &&
         resolve(h, "cusparseLtSpMMAPruneCheck", f.check_pattern) &&
         resolve(h, "cusparseLtSpMMACompressedSize", f.compressed_size) &&
         resolve(h, "cusparseLtSpMMACompress", f.compress) &&
         resolve(h, "cusparseLtMatmulSearch", f.search) && resolve(h, "cusparseLtMatmul", f.matmul);
}

struct Types {
  int in, out, compute;
};

// By CUDA's numbers of element types.
std::optional<Types> types_of(const Product& p) {
  constexpr int kR16F = 2, kR8I = 3, kR32I = 10, kR16BF = 14;
  if (p.in == ElemType::i8 && p.acc == ElemType::i32) {
    if (p.out == ElemType::i8) return Types{kR8I, kR8I, kCompute32I};
    if (p.out == ElemType::i32) return Types{kR8I, kR32I, kCompute32I};
  }
  if (p.in != p.out || p.acc != ElemType::f32) return std::nullopt;
  if (p.in == ElemType::f16) return Types{kR16F, kR16F, kCompute32F};
  if (p.in == ElemType::bf16) return Types{kR16BF, kR16BF, kCompute32F};
  return std::nullopt;
}

// Matrices and a plan, destroyed with the scope as far as they were made.
struct Descriptors {
  const Functions& f;
  Opaque first = {}, second = {}, result = {}, product = {}, algorithm = {}, plan = {};
  std::vector<const Opaque*> matrices = {};
  bool planned = false;

  explicit Descriptors(const Functions& functions) : f(functions) {}
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;
  ~Descriptors() {
    if (planned) f.plan_destroy(&plan);
    for (const Opaque* matrix : matrices) f.matrix_destroy(matrix);
  }
};

class CusparseLtProblem : public GpuPeerProblem {
 public:
  CusparseLtProblem(const Functions& f, const Opaque& library, Device& device,
                    const Product& product, Types types)
      : f_(f), library_(library), device_(device), p_(product), d_(f) {
    describe(types);
    compress();
    search();
  }

  void launch() override {
    void* stream = device_.stream();
    check(f_.matmul(&library_, &d_.plan, &one_, device_pointer(compressed_->address()),
                    device_pointer(p_.a), &zero_, device_pointer(p_.c), device_pointer(p_.c),
                    device_pointer(workspace_->address()), &stream, 1),
          "cusparseLtMatmul");
  }
  std::string choice() const override { return "the algorithm that its own search found"; }

 private:
  void check(int status, const char* doing) const {
    if (status != 0) {
      throw DeviceError(fmt::format("cuSPARSELt: {}: {}", doing, f_.error_name(status)));
    }
  }
  void describe(Types types);
  void compress();
  void make_workspace();
  void search();

  const Functions& f_;
  const Opaque& library_;
  Device& device_;
  Product p_;
  float one_ = 1, zero_ = 0;
  Descriptors d_;
  std::unique_ptr<DeviceArray> compressed_, workspace_;
};

// A row-major matrix is the transposed one by columns: the library computes C^T = B^T A^T, of which
// B^T is the sparse one.
void CusparseLtProblem::describe(Types t) {
  const int64_t rows_b = p_.trans_b ? p_.k : p_.n, columns_b = p_.trans_b ? p_.n : p_.k;
  const int64_t rows_a = p_.trans_a ? p_.m : p_.k, columns_a = p_.trans_a ? p_.k : p_.m;
  check(f_.sparse_matrix(&library_, &d_.first, rows_b, columns_b, rows_b, kAlignment, t.in,
                         kColumnOrder, kHalfSparse),
        "cusparseLtStructuredDescriptorInit");
  d_.matrices.push_back(&d_.first);
  check(f_.dense_matrix(&library_, &d_.second, rows_a, columns_a, rows_a, kAlignment, t.in,
                        kColumnOrder),
        "cusparseLtDenseDescriptorInit");
  d_.matrices.push_back(&d_.second);
  check(f_.dense_matrix(&library_, &d_.result, p_.n, p_.m, p_.n, kAlignment, t.out, kColumnOrder),
        "cusparseLtDenseDescriptorInit");
  d_.matrices.push_back(&d_.result);
  check(f_.product(&library_, &d_.product, p_.trans_b ? kOpT : kOpN, p_.trans_a ? kOpT : kOpN,
                   &d_.first, &d_.second, &d_.result, &d_.result, t.compute),
        "cusparseLtMatmulDescriptorInit");
  check(f_.algorithm(&library_, &d_.algorithm, &d_.product, kDefaultAlgorithm),
        "cusparseLtMatmulAlgSelectionInit");
  check(f_.plan(&library_, &d_.plan, &d_.product, &d_.algorithm), "cusparseLtMatmulPlanInit");
  d_.planned = true;
}

void CusparseLtProblem::compress() {
  DeviceArray verdict(device_, sizeof(int));
  check(f_.check_pattern(&library_, &d_.product, device_pointer(p_.b),
                         static_cast<int*>(device_pointer(verdict.address())), device_.stream()),
        "cusparseLtSpMMAPruneCheck");
  int invalid = 1;
  verdict.download(&invalid);
  if (invalid != 0) throw DeviceError("cuSPARSELt: the weight is not in its 2:4 pattern");
  size_t bytes = 0, buffer_bytes = 0;
  check(f_.compressed_size(&library_, &d_.plan, &bytes, &buffer_bytes),
        "cusparseLtSpMMACompressedSize");
  compressed_ = std::make_unique<DeviceArray>(device_, static_cast<int64_t>(bytes));
  DeviceArray buffer(device_, static_cast<int64_t>(buffer_bytes));
  check(
      f_.compress(&library_, &d_.plan, device_pointer(p_.b), device_pointer(compressed_->address()),
                  device_pointer(buffer.address()), device_.stream()),
      "cusparseLtSpMMACompress");
  device_.wait("compressing a weight for cuSPARSELt");
}

void CusparseLtProblem::make_workspace() {
  size_t bytes = 0;
  check(f_.workspace(&library_, &d_.plan, &bytes), "cusparseLtMatmulGetWorkspace");
  workspace_.reset();
  workspace_ = std::make_unique<DeviceArray>(device_, static_cast<int64_t>(bytes));
}

void CusparseLtProblem::search() {
  make_workspace();
  void* stream = device_.stream();
  check(f_.search(&library_, &d_.plan, &one_, device_pointer(compressed_->address()),
                  device_pointer(p_.a), &zero_, device_pointer(p_.c), device_pointer(p_.c),
                  device_pointer(workspace_->address()), &stream, 1),
        "cusparseLtMatmulSearch");
  device_.wait("searching an algorithm of cuSPARSELt");
  make_workspace();  // the algorithm that was found may need more
}

class CusparseLt : public GpuPeer {
 public:
  CusparseLt(const Functions& f, std::unique_ptr<Opaque> library, int version)
      : f_(f), library_(std::move(library)), version_(version) {}
  ~CusparseLt() override { f_.destroy(library_.get()); }

  std::string name() const override { return "cusparselt"; }
  std::string version() const override {
    return fmt::format("{}.{}.{}", version_ / 1000, version_ / 100 % 10, version_ % 100);
  }
  std::unique_ptr<GpuPeerProblem> prepare(Device& device, PeerOperands& operands,
                                          std::string& reason) override {
    const Product& p = operands.product();
    auto types = types_of(p);
    if (!p.sparse) {
      reason = "it takes weights of the pattern 2:4";
    } else if (p.batch != 1 || p.bias || p.relu) {
      reason = "it is asked for single products without an epilogue";
    } else if (!types) {
      reason = fmt::format("it has no products of {} summed in {} to {}", to_string(p.in),
                           to_string(p.acc), to_string(p.out));
    }
    if (!reason.empty()) return nullptr;
    if (bits_of(p.in) == 8) operands.transpose_b(device);
    try {
      return std::make_unique<CusparseLtProblem>(f_, *library_, device, operands.product(), *types);
    } catch (const DeviceError& e) {
      reason = e.what();
      return nullptr;
    }
  }

 private:
  Functions f_;
  std::unique_ptr<Opaque> library_;
  int version_;
};

}  // namespace
}  // namespace cusparse_lt

std::unique_ptr<GpuPeer> open_cusparse_lt() {
  using namespace cusparse_lt;
  void* handle = open_first(peer_paths({"libcusparseLt.so.0", "libcusparseLt.so"}));
  Functions f = {};
  if (handle == nullptr || !resolve_all(handle, f)) return nullptr;
  auto library = std::make_unique<Opaque>();
  int version = 0;
  if (f.init(library.get()) != 0) return nullptr;
  if (f.version(library.get(), &version) != 0 || version < kLeastVersion) {
    f.destroy(library.get());
    return nullptr;
  }
  return std::make_unique<CusparseLt>(f, std::move(library), version);
}

}  // namespace tilewright::cuda
