// Loops over four products of bytes, which are one instruction of a thread (dp4a).
//
// A schedule marks the loop with the annotation kDotKey. It stands around
//
//   C[…] = C[…] + X[… + i] * Y[… + i]
//
// where X and Y are private arrays of bytes, whose elements here begin at multiples of four. C does
// not depend on i.
#pragma once

#include <string>

#include "codegen/cuda/cuda_expr.h"
#include "ir/arith/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

// The statement that computes the loop. Throws LoweringError that names the loop and the
// requirement that it misses.
std::string dot_line(const ForNode& loop, CudaExpr& expr, Analyzer& known);

}  // namespace tilewright
