// Contractions on a GPU by asynchronous matrix instructions of warpgroups (sm_90a).
#pragma once

#include <string>

#include "codegen/wgmma_rows.h"
#include "tuner/rules/gpu_roles.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// How the question "NAME.mma" calls them, "wgmma_f32_f16"; empty where the target has none for the types
// of the block's operands and sums, or the product is too small for them.
std::string gpu_wgmma_way(RuleContext& c, const Block& block, const GpuRoles& roles);

// The instruction of so many columns for the types of the block's operands and sums; null when the target
// has none.
const WgmmaRow* gpu_wgmma_row(const RuleContext& c, const Block& block, const GpuRoles& roles,
                              int64_t n);

// Whether sums of 8-bit floats leave the tensor cores every kPromotedTerms terms (codegen/tensor_sums.h);
// asks "NAME.promote". So many terms, of which `sums` are summed in all, are always promoted: nobody
// grants what more of them would lose.
bool gpu_promotes(RuleContext& c, const Block& block, ElemType operand, int64_t sums);

// Tiles of both operands lie in shared memory as a matrix descriptor says, in swizzled rows of 128
// bytes. Requires that there is such a way.
void gpu_wgmma_contraction(RuleContext& c, const Block& block, const GpuRoles& roles);

}  // namespace tilewright
