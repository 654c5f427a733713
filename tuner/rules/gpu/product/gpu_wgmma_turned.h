// Products of few rows with wgmma (sm_90a) and swapped operands (swap AB): computes C^T = B^T *
// A^T. The columns of B are the instruction's 64 rows, and the rows of A its columns, of which
// there may be as few as 8.
#pragma once

#include <string>

#include "tuner/rules/gpu/gpu_roles.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// The option of the knob "NAME.mma", such as "wgmma_f32_f16_turned". Empty if the target has no
// instruction for the block's types, A is not contiguous along k, or there are many rows or few
// columns.
std::string gpu_wgmma_turned_way(RuleContext& c, const Block& block, const GpuRoles& roles);

// Requires a nonempty gpu_wgmma_turned_way().
void gpu_wgmma_turned_contraction(RuleContext& c, const Block& block, const GpuRoles& roles);

}  // namespace tilewright
