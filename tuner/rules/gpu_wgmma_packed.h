// Packed weights by asynchronous matrix instructions of warpgroups, which take them from registers.
#pragma once

#include <string>
#include <vector>

#include "tuner/rules/gpu_packable.h"
#include "tuner/rules/gpu_roles.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// The answer of "C.mma" that stands for them, as "wgmma_f32_f16", or "wgmma_sp_f32_f16" where they leave
// out zeros of the weight; empty where the target has none for the block's types, or for too few rows or
// columns.
std::string gpu_wgmma_packed_way(RuleContext& c, const Block& block, const GpuRoles& roles,
                                 const Packable& weight);

// The transposed product: the weight's columns are the 64 rows of an instruction's first operand, which
// each thread unpacks into the registers that it gives, and the rows of activations are the
// instruction's columns, of which there are from 8 to 256; they come to shared memory by `cp.async`.
// `weights` are those of the product and of its siblings, which are multiplied by the same tile of
// activations one behind the other. Requires that the way is not empty.
void gpu_wgmma_packed_contraction(RuleContext& c, const Block& block, const GpuRoles& roles,
                                  const std::vector<Packable>& weights);

}  // namespace tilewright
