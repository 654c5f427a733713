// Whether what a kernel computes of a row depends on how many rows there are.
#pragma once

#include <string>

#include "runtime/operands.h"

namespace tilewright {

// Whether the operands of fewer rows are how those of more begin, the results bit for bit: shapes
// differ in the outermost dimension alone, the output's among them.
bool begins_alike(OperandSet& few, OperandSet& many);

// Stands for the bits of all rows of the output.
std::string rows_identity(OperandSet& operands);

}  // namespace tilewright
