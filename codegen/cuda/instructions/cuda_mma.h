// Loop nests that are matrix instructions of a warp.
//
// A schedule marks the outermost loop of a nest as kInstructionKey, by the name of a row of
// mma_rows(). The outer loops are f over fragments of rows and g over fragments of columns, where
// there are several. The inner ones are the row, the column and k within one instruction, around
//
//   C[…, lane, register] = C[…, lane, register] + A[…] * B[…]
//
// C is private to threads. Its last two dimensions are the lane and the element that hold an
// accumulator by Instruction::d(). A and B are tiles in shared memory. Both may lie either way round
// where their elements have 16 bits, which are transposed on their way to registers. Others run
// along k, 16 bytes at a time; the next 16 bytes lie behind these or anywhere else. A may be
// private, too. Its last two dimensions are then the lane, and the place among the lane's elements
// by Instruction::a().
//
// With a row of sparse_mma_rows(), A is private and has only its kept elements. B is read at the
// places where these stood. The innermost loop runs over the kept elements r of as many
// instructions as take their sparse metadata from one register,
//
//   C[…] = C[…] + A[…, r / kept, lane, …] * B[…, r / keep * of + P[…, lane, place]]
//
// P, the sparse metadata, is private. Its elements (of 2 bits) are the places by Instruction::metadata(),
// one word per lane.
//
// The nests of other rows may also read B at places that P gives, where B's columns are neighbours.
// P is then in shared memory, and the same for all rows of A. Each lane gives `ldmatrix` the row of
// its index along k.
//
//   C[…] = C[…] + A[…, lane, …] * B[r / keep * of + P[…, r], …]
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "codegen/cuda/cuda_expr.h"
#include "codegen/cuda/instructions/cuda_sparse_parts.h"
#include "ir/arith/simplify.h"
#include "ir/stmt.h"
#include "kernel/instructions/mma_rows.h"

namespace tilewright {

// An operand in shared memory: the element [0, 0] of the first instruction's matrix, and the
// distances between fragments, rows and columns of the matrix.
struct MmaOperand {
  Buffer buffer;
  Expr start;
  int64_t fragment, row, column;
  int64_t piece = 0;  // for one that runs along k: the distance to its next 16 bytes along k
};

// A gathered B: the location of the element with index `row` along k and column 0.
struct MmaGather {
  Expr row;  // undefined where B's rows lie in equal steps
  Expr index;
};

// The parts of a marked nest over flat buffers.
struct MmaNest {
  const Instruction* row;
  int64_t a_fragments = 1, b_fragments = 1;
  Buffer sums;
  Expr sums_start;
  int64_t sums_a = 0, sums_b = 0;  // distances between the accumulators of neighbouring fragments
  MmaOperand a, b;                 // for an `a` in registers only `fragment` counts
  SparseWords sparse = {};         // of a sparse A
  MmaGather gather = {};

  // Instructions along k.
  int steps() const { return row->selectors(); }
  // Multiply-adds of one fragment by another, without those of elements that are not kept.
  int64_t products() const { return int64_t{row->m} * row->n * row->kept() * steps(); }
};

// Whether kernels can be printed with the row: ldmatrix brings its operands to registers.
bool is_printed(const Instruction& row);
/// Refuses a loop that is marked so: throws LoweringError with the mark and the reason.
[[noreturn]] void fail_mma(const ForNode& loop, const std::string& reason);
/// The nest of a marked loop: `most` loops at most, the inner ones over the row, the column and k of
/// an instruction, of these sizes, around one store on no condition. A loop over one fragment may
/// have gone. Refuses other loops, by what is `wanted` where their number is wrong.
LoopNest nest_of_product(const ForNode& loop, const std::array<int64_t, 3>& sizes, size_t most,
                         const std::string& wanted);
// Throws LoweringError that names the loop and the requirement that it misses.
MmaNest match_mma(const ForNode& loop, Analyzer& known);
// The same by a given row, whatever the loop is marked with.
MmaNest match_mma_as(const ForNode& loop, const Instruction& row, Analyzer& known);
// The same for a nest whose B is gathered; nothing for others.
std::optional<MmaNest> match_gathered_mma(const ForNode& loop, const Instruction& row,
                                          Analyzer& known);
// The lines with which a warp executes it: fragments and sparse metadata to registers, then every
// product.
std::vector<std::string> mma_lines(const MmaNest& nest, CudaExpr& expr);
// The head of a loop over fragments.
std::string mma_loop(const std::string& var, int64_t extent);

}  // namespace tilewright
