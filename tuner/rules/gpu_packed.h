// Contractions on a GPU with a weight of few bits: matrix instructions take the weight from registers,
// where its codes become elements. Codes lie in memory as the lanes of a warp want them.
#pragma once

#include "tuner/rules/gpu_roles.h"

namespace tilewright {

// False when the weight, its groups or the other operand do not fit, or when the trial says so.
bool gpu_packed_contraction(RuleContext& c, const Block& block, const GpuRoles& roles);

}  // namespace tilewright
