// Products of a matrix and a few vectors on a GPU: as quick as the matrix can be read.
#pragma once

#include "tuner/rules/gpu_roles.h"

namespace tilewright {

// Where one operand has few rows (or columns), each element of the other is read once, 16 bytes a
// thread, straight into registers; threads take terms in turn and add their sums up at the end, by
// shuffles and through shared memory. Operands that run along the terms give a warp several rows,
// others give a thread neighbouring columns. The value of a stored weight is worked out in place.
// False when neither fits or the trial wants another way.
bool gpu_gemv(RuleContext& c, const Block& block, const GpuRoles& roles);

// The same by words of codes, from which threads make registers of elements: the weight is packed so
// that a lane reads up to 16 bytes of codes of one column, a register's codes in the places of its
// elements, and scales are applied to sums. Whether the product may be computed so, and doing it.
bool gpu_gemv_takes_words(RuleContext& c, const Block& block, const GpuRoles& roles);
void gpu_gemv_by_words(RuleContext& c, const Block& block, const GpuRoles& roles);

}  // namespace tilewright
