// Matrix instructions of a warp (PTX `mma.sync` and `mma.sp`).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernel/instructions/instruction.h"

namespace tilewright {

/// Every row with a dense A, and every row with a sparse one, of twice the k at the same cost. The
/// PTX of the rows follows `mma.sync.aligned`, or for sparse ones `mma.sp`
/// (`mma.sp::ordered_metadata` where it is known).
const std::vector<Instruction>& mma_rows();
const std::vector<Instruction>& sparse_mma_rows();

/// The function of a `split` row, in terms of the row that does its work. `extra` are parameters
/// that both take after the others: "TW_LINE".
std::string split_mma_text(const Instruction& row, std::string_view extra = {},
                           std::string_view argument = {});

}  // namespace tilewright
