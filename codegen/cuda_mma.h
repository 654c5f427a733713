// Loops that are matrix instructions of a warp.
//
// A schedule marks the outermost of some loops with the annotation kMmaKey, the name of a row of
// mma_rows.h: f over fragments of rows and g over fragments of columns, where there are several, then
// the row, the column and the term within one instruction, around
//
//   C[…, lane, register] = C[…, lane, register] + A[…] * B[…]
//
// where C is private to threads, its last two dimensions the lane and the register that hold an
// element by acc_place(), and A and B are tiles in shared memory. Both may lie either way round where
// their elements have 16 bits, which are transposed on their way to registers; others run along k.
// A may be private, too: its last two dimensions are then the lane and the place among the lane's
// elements by a_place(), register by register.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda_expr.h"
#include "codegen/mma_rows.h"
#include "ir/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

inline constexpr const char* kMmaKey = "mma";

// An operand in shared memory: the element [0, 0] of the first instruction's matrix, how far
// fragments, rows and columns of the matrix lie apart.
struct MmaOperand {
  Buffer buffer;
  Expr start;
  int64_t fragment, row, column;
};

// A marked nest over flat buffers, taken apart.
struct MmaNest {
  const MmaRow* row;
  int64_t a_fragments = 1, b_fragments = 1;
  Buffer sums;
  Expr sums_start;
  int64_t sums_a = 0, sums_b = 0;  // how far the sums of neighbouring fragments lie apart
  MmaOperand a, b;                 // of an `a` in registers `fragment` alone counts
};

// Whether kernels are printed with the row: ldmatrix brings its operands to registers.
bool is_printed(const MmaRow& row);
// The name of the row that a loop is marked with; empty when it is not marked.
std::string mma_mark(const ForNode& loop);
// Throws LoweringError that names the loop and what is not as it has to be.
MmaNest match_mma(const ForNode& loop, Analyzer& known);
// The lines that a warp carries it out with: fragments to registers, then every product.
std::vector<std::string> mma_lines(const MmaNest& nest, CudaExpr& expr);

}  // namespace tilewright
