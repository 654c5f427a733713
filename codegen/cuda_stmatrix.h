// Loops that a warp carries out by one stmatrix: matrices of 8 x 8 elements of 16 bits, two neighbours
// of a row in each lane, to shared memory.
//
// A schedule marks the outermost of one or two loops over two or four matrices with the annotation
// kStmatrixKey. They stand in a loop over threads of which lane l has elements 2 * (l % 4) and
// 2 * (l % 4) + 1 of row l / 4, and around a vectorized store of these two:
//
//   for t in 0..256 thread_x { for x in 0..4 @{stmatrix: 1} { for c in 0..2 vectorized {
//     S[…, t % 32 / 4, …, t % 4 * 2 + c] = … }}}
//
// The store has no condition: a lane writes a whole row, the elements of three others with its own.
// The rows of a matrix lie anywhere in the array, each at a multiple of 16 bytes. Where it is the
// elements of a column that are neighbours there, the instruction transposes.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda_expr.h"
#include "codegen/target.h"
#include "ir/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

// Whether the GPU has the instruction (PTX ISA, stmatrix: sm_90 and above).
bool has_stmatrix(const GpuFacts& gpu);

// A marked nest over flat buffers, taken apart.
struct StmatrixNest {
  Buffer buffer;
  // Where the row begins that a lane names: of matrix l / 8 its row l % 8. In terms of the thread.
  Expr row;
  bool is_transposed = false;
  std::vector<Stmt> pieces;  // what a lane stores of each matrix
};

// `thread` is the axis of threads around. Throws LoweringError that names the loop and what is not as
// it has to be.
StmatrixNest match_stmatrix(const ForNode& loop, const Expr& thread, Analyzer& known);
// The lines that a warp carries it out with.
std::vector<std::string> stmatrix_lines(const StmatrixNest& nest, CudaExpr& expr);

}  // namespace tilewright
