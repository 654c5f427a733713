// Contractions on a GPU with wgmma, the asynchronous matrix instructions of warpgroups (sm_90a).
#pragma once

#include <string>

#include "kernel/instructions/wgmma_rows.h"
#include "tuner/rules/gpu/gpu_roles.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// Epilogue stores as TMA tiles.
inline constexpr const char* kInBoxes = "tensor";

// The option of the knob "NAME.mma", such as "wgmma_f32_f16". Empty if the target has no
// instruction for the types of the operands and accumulators, or the product is too small.
std::string gpu_wgmma_way(RuleContext& c, const Block& block, const GpuRoles& roles);

// The instruction of `n` columns for the types of the block's operands and accumulators; null if
// the target has none.
const Instruction* gpu_wgmma_row(const RuleContext& c, const Block& block, const GpuRoles& roles,
                                 int64_t n);

// Whether accumulators of 8-bit floats are promoted: moved from the tensor cores to f32 every
// kPromotedTerms of k (kernel/instructions/tensor_sums.h). Asks the knob "NAME.promote". `sums` is the total k;
// a larger one than kPromotedTerms is always promoted, since no tolerance allows the error
// otherwise.
bool gpu_promotes(RuleContext& c, const Block& block, ElemType operand, int64_t sums);

// The tiles of both operands lie in shared memory in swizzled rows of 128 bytes, as a matrix
// descriptor says. Requires a nonempty gpu_wgmma_way().
void gpu_wgmma_contraction(RuleContext& c, const Block& block, const GpuRoles& roles);

}  // namespace tilewright
