// Contractions on a GPU whose weight lies in memory as the lanes of a warp want it: matrix instructions
// take it from registers, where codes of a few bits become elements.
#pragma once

#include <vector>

#include "tuner/rules/gpu_packable.h"
#include "tuner/rules/gpu_roles.h"

namespace tilewright {

// False when the weight, its groups or the other operand do not fit, or when the trial says so; it may
// then have asked for a weight that is laid out by tiles (roles.weight).
bool gpu_packed_contraction(RuleContext& c, const Block& block, GpuRoles& roles);

// By instructions of a warp, or of a warpgroup where the target has them for so many rows: the weights of
// the product and of its siblings, as they lie in fragments.
void gpu_multiply_fragments(RuleContext& c, const Block& block, const GpuRoles& roles,
                            const std::vector<Packable>& weights);

}  // namespace tilewright
