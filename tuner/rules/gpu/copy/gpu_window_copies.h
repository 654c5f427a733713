// Decides whether tiles of gathered operands are loaded by TMA: im2col of a convolution, its
// weight, matrices whose rows have several indices.
#pragma once

#include <string>

#include "tuner/rules/rules.h"

namespace tilewright {

/// Whether one tensor map (codegen/cuda/cuda_tensor_copy.h) describes a tile of `operand`, which `block`
/// reads and a gathering block writes. The tile has `terms` of the iterator `k` and any rows, or
/// 128 bytes across if the operand is not contiguous along k. Along k it may be cut into swizzle
/// atoms of `span` elements, one copy each; `span` divides `terms`.
bool gpu_is_one_copy(const RuleContext& c, const Block& block, const std::string& operand, int k,
                     int64_t terms, int64_t span);

/// The most k elements of the operand per copy, for a tile of `terms` that fill 128 bytes. All of
/// them, or for im2col with other channel counts as many as fill 64 or 32 bytes, the atoms of
/// narrower swizzles. 0 if there are no such copies, or the operand is not contiguous along k.
int64_t gpu_span_of_windows(const RuleContext& c, const Block& block, const std::string& operand,
                            int k, int64_t terms);

}  // namespace tilewright
