// GPU contractions with a weight prepacked in fragment order: matrix instructions take it from
// registers, where few-bit codes become elements.
#pragma once

#include <vector>

#include "tuner/rules/gpu/gpu_packable.h"
#include "tuner/rules/gpu/gpu_roles.h"

namespace tilewright {

// Returns false if the weight, its groups or the other operand do not fit, or if the trial chooses
// so. In that case the trial may have chosen a weight stored by tiles (roles.weight).
bool gpu_packed_contraction(RuleContext& c, const Block& block, GpuRoles& roles);

// Multiplies with warp instructions (mma), or with warpgroup instructions (wgmma) if the target has
// them for this many rows. The weights of the product and of its siblings are in fragment order.
void gpu_multiply_fragments(RuleContext& c, const Block& block, const GpuRoles& roles,
                            const std::vector<Packable>& weights);

}  // namespace tilewright
