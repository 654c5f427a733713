// Contractions on a GPU whose weight lies in memory as the lanes of a warp want it: matrix instructions
// take it from registers, where codes of a few bits become elements.
#pragma once

#include "tuner/rules/gpu_roles.h"

namespace tilewright {

// False when the weight, its groups or the other operand do not fit, or when the trial says so; it may
// then have asked for a weight that is laid out by tiles (roles.weight).
bool gpu_packed_contraction(RuleContext& c, const Block& block, GpuRoles& roles);

}  // namespace tilewright
