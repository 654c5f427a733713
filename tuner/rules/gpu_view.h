// Contractions that are matrix products once their iterators are put together: convolutions, products
// with several dimensions, parts of a split reduction.
#pragma once

#include <optional>

#include "tuner/rules/gpu_roles.h"

namespace tilewright {

// Brings a contraction C[…] += A[…] * B[…] into the form C[b, i, j] += A[b, i, k] * B[b, k, j]: what only
// A and the result have becomes i, what only B and the result have becomes j, what is summed becomes k.
// Extents are static but for those of b. The operands are then copies that gather their elements (of a
// convolution the implicit matrix of windows), to be put where the product reads them.
// Nothing, and nothing changed, when the block has no such iterators.
std::optional<GpuRoles> gpu_view_as_product(RuleContext& c, const Block& block);

}  // namespace tilewright
