// Common parts of the questions about a product with matrix instructions.
#pragma once

#include <string>
#include <vector>

#include "tuner/rules/gpu/product/gpu_product.h"

namespace tilewright {

// Epilogue stores as TMA tiles.
inline constexpr const char* kInBoxes = "tensor";

// The extents of a product; of a dynamic one the largest.
struct ProductSizes {
  int64_t batch = 1, i = 0, j = 0, k = 0;
  bool has_dynamic_rows = false;

  // The number of result tiles.
  int64_t tiles(const TensorTileSizes& tile) const;
};
ProductSizes gpu_sizes_of(const RuleContext& c, const GpuProduct& p);

// The numbers of stages, each of that many bytes, that a block's shared memory holds. One stage is
// always there.
std::vector<int64_t> gpu_stages_that_fit(const RuleContext& c, std::vector<int64_t> stages,
                                         int64_t bytes);

// Asks how tiles become blocks (gpu_choose_grid()), of a plan that has all other answers.
struct GridWork {
  int64_t tiles, k;  // result tiles, and the k that each adds up
  int64_t shared_bytes;
  int64_t sums = 0;       // accumulators per thread, of warpgroups
  bool may_share = true;  // k between blocks, as far as the plan allows it
};
GpuGrid gpu_ask_grid(RuleContext& c, const GpuProduct& p, const GpuProductPlan& plan,
                     const GridWork& work);

// Bytes of a staged tile of 4-byte elements, with padding per row.
int64_t gpu_staged_bytes(const TensorTileSizes& tile);

// Whether accumulators of 8-bit floats are promoted: moved from the tensor cores to f32 every
// kPromotedTerms of k (kernel/instructions/tensor_sums.h). Asks the knob "NAME.promote". `sums` is
// the total k; a larger one than kPromotedTerms is always promoted, since no tolerance allows the
// error otherwise.
bool gpu_promotes(RuleContext& c, const Block& block, ElemType operand, int64_t sums);

// "wgmma_f32_f16" of a row such as "m64n8k16_f32_f16", with the prefix "wgmma".
std::string gpu_way_of(const Instruction& row, const std::string& prefix);

}  // namespace tilewright
