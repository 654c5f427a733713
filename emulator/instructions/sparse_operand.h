// Operands of which matrix instructions are given the kept elements alone.
#pragma once

#include <vector>

#include "emulator/instructions/mma_values.h"
#include "emulator/memory/memory.h"
#include "kernel/instructions/mma_rows.h"

namespace tilewright::emulator {

// A [m, k], of which `stored` has the kept elements: each stands where the words of the
// lanes that the selector names say (of their request's `value` the low 32 bits). Throws Fault where
// they name no place, or places that do not ascend.
Matrix spread_by_metadata(const Instruction& row, int selector,
                          const std::vector<ThreadState*>& lanes, Matrix& stored);

}  // namespace tilewright::emulator
