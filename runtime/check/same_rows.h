// Whether what a kernel computes of a row depends on how many rows there are.
#pragma once

#include <string>

#include "runtime/tensor/operands.h"

namespace tilewright {

// Whether the operands of fewer rows are how those of more begin, the results bit for bit: shapes
// differ in the outermost dimension alone, the output's among them.
bool begins_alike(OperandSet& few, OperandSet& many);

// Whether each row of the output follows from rows of the same number and from what all rows share. The
// workload's only dynamic dimension is then the outermost one of each array that has it, and nothing
// else depends on it.
bool rows_are_apart(const Workload& workload);
// Whether test data of `few` is how that of `many` begins, the same seed and kind given.
bool values_begin_alike(const std::vector<OperandInfo>& few, const std::vector<OperandInfo>& many);

// Stands for the bits of all rows of the output.
std::string rows_identity(OperandSet& operands);

}  // namespace tilewright
