// GEMV: products of a matrix and a few vectors on a GPU, bound by the speed of reading the matrix.
#pragma once

#include "tuner/rules/gpu/gpu_roles.h"

namespace tilewright {

// One operand has few rows (or columns). Each element of the other is read once, as a 16-byte
// vector per thread, straight into registers. Threads take k elements in turn and reduce their sums
// at the end, by shuffles and through shared memory. If the matrix is contiguous along k, a warp
// takes several rows; else a thread takes neighbouring columns. A stored weight is dequantized in
// place. Returns false if neither fits or the trial chooses another way.
bool gpu_gemv(RuleContext& c, const Block& block, const GpuRoles& roles);

// The same with packed 32-bit registers of codes, which threads unpack into registers of elements.
// The weight is packed so that a lane reads up to 16 bytes of one column's codes. A register's
// codes lie at the positions of its elements, and scales apply to sums. The first function tells
// whether the product fits; the second does it.
bool gpu_gemv_takes_words(RuleContext& c, const Block& block, const GpuRoles& roles);
void gpu_gemv_by_words(RuleContext& c, const Block& block, const GpuRoles& roles);

}  // namespace tilewright
