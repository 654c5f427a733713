// Loops over four products of bytes, which are one instruction of a thread.
//
// A schedule marks the loop with the annotation kDotKey. It stands around
//
//   C[…] = C[…] + X[… + i] * Y[… + i]
//
// where X and Y are private arrays of bytes whose elements begin at multiples of four, and C does not
// depend on i.
#pragma once

#include <string>

#include "codegen/cuda_expr.h"
#include "ir/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

// The statement that carries the loop out. Throws LoweringError that names the loop and what is not as
// it has to be.
std::string dot_line(const ForNode& loop, CudaExpr& expr, Analyzer& known);

}  // namespace tilewright
