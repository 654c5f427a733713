// Asynchronous matrix instructions of a warpgroup (PTX `wgmma.mma_async` and `wgmma.mma_async.sp`,
// sm_90a). B lies in shared memory; A lies there, too (wgmma_layout.h), or in registers.
#pragma once

#include <vector>

#include "kernel/instructions/instruction.h"

namespace tilewright {

inline constexpr int kWarpgroupRows = 64;  ///< m of every row
inline constexpr int kWarpRows = 16;       ///< rows of A and D that each of the four warps has

/// Every row with a dense A. n is a multiple of 8 from 8 to 256, of 16 from 32 on where operands
/// are integers.
const std::vector<Instruction>& wgmma_rows();
/// A row with a sparse A of twice the k for each of these, in the same order.
const std::vector<Instruction>& sparse_wgmma_rows();

}  // namespace tilewright
