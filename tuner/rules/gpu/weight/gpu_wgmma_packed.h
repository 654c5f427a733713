// Packed weights with wgmma, whose operand A comes from registers.
#pragma once

#include <string>
#include <vector>

#include "tuner/rules/gpu/gpu_packable.h"
#include "tuner/rules/gpu/gpu_roles.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// The option of the knob "C.mma", such as "wgmma_f32_f16", or "wgmma_sp_f32_f16" with a sparse
// weight. Empty if the target has no instruction for the block's types, or if there are too few
// rows or columns.
std::string gpu_wgmma_packed_way(RuleContext& c, const Block& block, const GpuRoles& roles,
                                 const Packable& weight);

// Swapped operands (swap AB): the weight's columns are the 64 rows of operand A, which each thread
// unpacks into its registers. The rows of activations are the instruction's columns, 8 to 256 of
// them. They come to shared memory by `cp.async` or TMA. `weights` are those of the product and of
// its siblings, which are multiplied one after another by the same tile of activations. Requires a
// nonempty gpu_wgmma_packed_way().
void gpu_wgmma_packed_contraction(RuleContext& c, const Block& block, const GpuRoles& roles,
                                  const std::vector<Packable>& weights);

}  // namespace tilewright
