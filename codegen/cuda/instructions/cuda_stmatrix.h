// Loops that a warp executes as one stmatrix. It stores matrices of 8 x 8 elements of 16 bits to
// shared memory; each lane holds two neighbours of a row.
//
// A schedule marks the outermost of one or two loops over two or four matrices as
// kStmatrix. They stand in a loop over threads. Lane l of it has elements 2 * (l % 4) and
// 2 * (l % 4) + 1 of row l / 4. Inside them is a vectorized store of these two elements:
//
//   for t in 0..256 thread_x { for x in 0..4 @{instruction: "stmatrix"} { for c in 0..2 vectorized {
//     S[…, t % 32 / 4, …, t % 4 * 2 + c] = … }}}
//
// The store has no condition: a lane writes a whole row, with the elements of three other lanes.
// The rows of a matrix lie anywhere in the array, each at a multiple of 16 bytes. Where the
// elements of a column are contiguous instead, the instruction transposes.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/cuda_expr.h"
#include "ir/arith/simplify.h"
#include "ir/stmt.h"
#include "kernel/target.h"

namespace tilewright {

// Whether the GPU has the instruction (PTX ISA, stmatrix: sm_90 and above).
bool has_stmatrix(const GpuFacts& gpu);

// The parts of a marked nest over flat buffers.
struct StmatrixNest {
  Buffer buffer;
  // The start of the row that a lane supplies: row l % 8 of matrix l / 8. In terms of the thread.
  Expr row;
  bool is_transposed = false;
  std::vector<Stmt> pieces;  // a lane's store for each matrix
};

// `thread` is the axis of threads around. Throws LoweringError that names the loop and the
// requirement that it misses.
StmatrixNest match_stmatrix(const ForNode& loop, const Expr& thread, Analyzer& known);
// The lines with which a warp executes it.
std::vector<std::string> stmatrix_lines(const StmatrixNest& nest, CudaExpr& expr);

}  // namespace tilewright
