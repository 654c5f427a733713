// Hand-written CUDA kernels of bulk and tensor copies, right ones; tests break them by replacing parts of
// their text.
#pragma once

#include <string>
#include <vector>

#include "emulator/emulator.h"

namespace tilewright::test {

// C[m, n] = A[m, k] * B[n, k]^T of f16 with f32 sums, for any sizes that tensor maps take: a warp loads
// tiles by tensor copies through 3 stages, four others multiply them, and one thread stores the result.
// Blocks of kPipelineThreads compute 64 x 32 elements with kPipelineShared bytes.
extern const char* const kTensorPipeline;
constexpr int kPipelineThreads = 160;
constexpr int64_t kPipelineShared = 45104;

// A map of a row-major matrix, whose box has `rows` x `columns` elements.
TensorMapValues matrix_map(ElemType elem, int64_t rows, int64_t columns, int64_t box_rows,
                           int64_t box_columns, TensorSwizzle swizzle = TensorSwizzle::None);

// The pipeline in clusters of two blocks that are neighbours along a row: each loads half of the
// rows of A and multicasts them to both. Its map of A has boxes of 32 rows.
extern const char* const kClusterPipeline;

// The result of kTensorPipeline and its like, what it should be, and what the emulator said.
struct PipelineRun {
  std::vector<float> c, want;
  EmulatorResult result;
};
PipelineRun run_pipeline(const std::string& text, int64_t m, int64_t n, int64_t k,
                         uint64_t seed = 0, TensorSwizzle swizzle = TensorSwizzle::B128,
                         int64_t rows_of_a = 64);

}  // namespace tilewright::test
