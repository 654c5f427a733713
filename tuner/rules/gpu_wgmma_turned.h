// Products of few rows by asynchronous matrix instructions of warpgroups (sm_90a), turned: what is computed
// is C^T = B^T * A^T, so that columns of B are the 64 rows of the instruction, and the rows of A its
// columns, of which there may be as few as 8.
#pragma once

#include <string>

#include "tuner/rules/gpu_roles.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// How the question "NAME.mma" calls it, "wgmma_f32_f16_turned"; empty where the target has none for the
// types of the block, A does not run along the terms, or there are many rows or few columns.
std::string gpu_wgmma_turned_way(RuleContext& c, const Block& block, const GpuRoles& roles);

// Requires that there is such a way.
void gpu_wgmma_turned_contraction(RuleContext& c, const Block& block, const GpuRoles& roles);

}  // namespace tilewright
