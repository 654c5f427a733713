#include "ggml_backend/launch.h"

#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace tilewright::ggml {
namespace {

constexpr size_t kAlignment = 64;
// Rows of a piece: whole multiples keep each piece as aligned as the first.
constexpr int64_t kUnit = 16;

bool is_aligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % kAlignment == 0;
}

// ggml's CPU backend runs on OpenMP's threads, which spin between its operators. The same ones run kernels, so that
// no others wait for their processors.
void on_openmp(void* pool, int64_t n, void (*body)(void*, int64_t, int64_t, int32_t),
               void* closure) {
  const int threads = static_cast<int>(std::min<int64_t>(*static_cast<const int*>(pool), n));
  if (threads <= 1) {
    if (n > 0) body(closure, 0, n, 0);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const int64_t worker = omp_get_thread_num(), workers = omp_get_num_threads();
    const int64_t begin = n * worker / workers, end = n * (worker + 1) / workers;
    if (begin < end) body(closure, begin, end, static_cast<int32_t>(worker));
  }
}

class MatrixView {
 public:
  MatrixView(const float* data, int64_t rows, int64_t columns) : shape_{rows, columns} {
    // DLPack has no constant data; kernels only read their inputs.
    tensor_ = {const_cast<float*>(data),  // NOLINT(*-const-cast)
               {kDLCPU, 0},
               2,
               {kDLFloat, 32, 1},
               shape_,
               nullptr,
               0};
  }
  MatrixView(const MatrixView&) = delete;
  MatrixView& operator=(const MatrixView&) = delete;
  const DLTensor* get() const { return &tensor_; }

 private:
  int64_t shape_[2];
  DLTensor tensor_{};
};

void launch_piece(const FoundKernel& found, const PackedWeight& weight, const Product& product,
                  const float* rows, float* out, int64_t m, LaunchMemory& memory) {
  const MatrixView a(rows, m, product.k), c(out, m, product.n);
  std::vector<const DLTensor*> tensors = weight.tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (found.operands[i].name == "A") tensors[i] = a.get();
    if (found.operands[i].name == "C") tensors[i] = c.get();
  }
  int threads = product.threads;
  auto executor = TW_INIT(tw_executor);
  executor.threads = threads;
  executor.parallel_for = on_openmp;
  executor.pool = &threads;
  auto args = TW_INIT(tw_launch_args);
  args.tensors = tensors.data();
  args.tensor_count = tensors.size();
  args.weights = weight.weights.get();
  args.workspace_bytes = found.workspace;
  args.workspace = found.workspace == 0 ? nullptr : memory.workspace.at_least(found.workspace);
  args.executor = &executor;
  tw::check(tw_launch(found.kernel.get(), &args));
}

}  // namespace

void Scratch::Free::operator()(float* memory) const { std::free(memory); }  // NOLINT(*-no-malloc)

float* Scratch::at_least(size_t bytes) {
  if (bytes > bytes_) {
    memory_.reset();
    bytes_ = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    memory_.reset(static_cast<float*>(std::aligned_alloc(kAlignment, bytes_)));
    if (memory_ == nullptr) {
      bytes_ = 0;
      throw std::bad_alloc();
    }
  }
  return memory_.get();
}

void launch_product(const FoundKernel& kernel, const PackedWeight& weight, const Product& product,
                    const float* rows, float* out, int64_t m, int64_t most, LaunchMemory& memory) {
  const size_t in_bytes = static_cast<size_t>(m * product.k) * sizeof(float);
  const size_t out_bytes = static_cast<size_t>(m * product.n) * sizeof(float);
  if (!is_aligned(rows)) {
    float* copy = memory.input.at_least(in_bytes);
    std::memcpy(copy, rows, in_bytes);
    rows = copy;
  }
  float* target = is_aligned(out) ? out : memory.output.at_least(out_bytes);
  const int64_t units = (m + kUnit - 1) / kUnit, pieces = (m + most - 1) / most;
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t begin = units * i / pieces * kUnit;
    const int64_t end = i + 1 == pieces ? m : units * (i + 1) / pieces * kUnit;
    launch_piece(kernel, weight, product, rows + begin * product.k, target + begin * product.n,
                 end - begin, memory);
  }
  if (target != out) std::memcpy(out, target, out_bytes);
}

}  // namespace tilewright::ggml
