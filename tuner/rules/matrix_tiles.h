// Contractions as products of an intrinsic's tiles.
#pragma once

#include <optional>

#include "tuner/rules/rules.h"
#include "tuner/rules/tensor.h"

namespace tilewright {

// Asks whether a product of a matrix and a weight is to be formed by an intrinsic that multiplies
// tiles (AMX), C[i, j] += A[i, k, p] * B[k, j, p]. If so, brings it into that form: both operands
// and the result padded to whole tiles, which lie together, the weight's at load and the others' in
// copies that each run makes. Nothing when no row of the target fits, or none is to be used.
std::optional<TensorTile> prepare_tiles(RuleContext& c, const Block& block);

}  // namespace tilewright
