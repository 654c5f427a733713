// Contractions that become matrix products when iterators are fused: convolutions (im2col),
// products with several dimensions, parts of a split reduction.
#pragma once

#include <optional>

#include "tuner/rules/gpu/gpu_roles.h"

namespace tilewright {

// Brings a contraction C[…] += A[…] * B[…] into the form C[b, i, j] += A[b, i, k] * B[b, k, j].
// Iterators of A and the result become i, those of B and the result become j, and reductions become
// k. Only b may be dynamic. The operands become copies that gather their elements (for a
// convolution the implicit im2col matrix), to be placed where the product reads them. Returns
// nothing, with nothing changed, if the block has no such iterators.
std::optional<GpuRoles> gpu_view_as_product(RuleContext& c, const Block& block);

}  // namespace tilewright
