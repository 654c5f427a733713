// Loops over four products of bytes, which are one instruction of a thread (dp4a).
//
// A schedule marks the loop as kDp4a. It stands around
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

// The parts of a marked loop over flat buffers.
struct DotNest {
  // The first of the four elements, which fill a register of their own.
  struct Word {
    Buffer buffer;
    Expr first;
  };
  Buffer sums;
  Expr index;
  Word x, y;  // unsigned bytes come first
};

// Throws LoweringError that names the loop and the requirement that it misses.
DotNest match_dot(const ForNode& loop, Analyzer& known);
// The statement that computes the loop.
std::string dot_line(const DotNest& nest, CudaExpr& expr);

}  // namespace tilewright
