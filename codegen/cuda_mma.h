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
// their elements have 16 bits, which are transposed on their way to registers; others run along k, 16
// bytes at a time, and the next 16 bytes lie behind these or anywhere else.
// A may be private, too: its last two dimensions are then the lane and the place among the lane's
// elements by a_place(), register by register.
//
// A row of sparse_mma_rows.h has A private, with its kept elements alone, and B read at the places
// that they stood at: the innermost loop runs over the kept terms r of as many instructions as take
// their metadata from one register,
//
//   C[…] = C[…] + A[…, r / kept, lane, …] * B[…, r / keep * of + P[…, lane, place]]
//
// where P is private, its elements (of 2 bits) the places by metadata_place(), a word of each lane.
//
// B may be read at places in the nests of other rows, too, where its columns are neighbours and P is
// in shared memory, the same for all rows of A: each lane then gives `ldmatrix` the row that its term
// stands in.
//
//   C[…] = C[…] + A[…, lane, …] * B[r / keep * of + P[…, r], …]
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/cuda_expr.h"
#include "codegen/mma_rows.h"
#include "codegen/sparse_mma_rows.h"
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
  int64_t piece = 0;  // of one that runs along k: how far its next 16 bytes along k lie
};

// What a sparse A has besides: metadata.
struct MmaMetadata {
  const SparseMmaRow* row = nullptr;  // null where A is not sparse
  Buffer words;
  Expr start;             // of this lane's word for the first fragment of A
  int64_t fragment = 0;   // how far those of neighbouring fragments lie apart
  int64_t next_step = 0;  // how far the elements of A of neighbouring instructions lie apart
};

// The terms of B that are gathered: where the element of term `row` and column 0 lies.
struct MmaGather {
  Expr row;  // undefined where B's terms lie in equal steps
  Expr index;
};

// A marked nest over flat buffers, taken apart.
struct MmaNest {
  const MmaRow* row;  // of a sparse one: as if A were whole
  int64_t a_fragments = 1, b_fragments = 1;
  Buffer sums;
  Expr sums_start;
  int64_t sums_a = 0, sums_b = 0;  // how far the sums of neighbouring fragments lie apart
  MmaOperand a, b;                 // of an `a` in registers `fragment` alone counts
  MmaMetadata sparse = {};
  MmaGather gather = {};

  // Instructions along k.
  int steps() const { return sparse.row ? sparse.row->selectors() : 1; }
  // Registers of a lane that hold A for one fragment and instruction.
  int a_registers() const {
    return sparse.row ? sparse.row->stored().a_registers() : row->a_registers();
  }
  // Multiply-adds of one fragment by another, those of elements that are not kept left out.
  int64_t products() const {
    return int64_t{row->m} * row->n * (sparse.row ? sparse.row->kept() * steps() : row->k);
  }
};

// Whether kernels are printed with the row: ldmatrix brings its operands to registers.
bool is_printed(const MmaRow& row);
// The name of the row that a loop is marked with; empty when it is not marked.
std::string mma_mark(const ForNode& loop);
/// Refuses a loop that is marked so: throws LoweringError with the mark and the reason.
[[noreturn]] void fail_mma(const ForNode& loop, const std::string& reason);
// Throws LoweringError that names the loop and what is not as it has to be.
MmaNest match_mma(const ForNode& loop, Analyzer& known);
// The same by a given row, whatever the loop is marked with.
MmaNest match_mma_as(const ForNode& loop, const MmaRow& row, Analyzer& known);
MmaNest match_sparse_mma(const ForNode& loop, const SparseMmaRow& row, Analyzer& known);
// Likewise one whose B is read at places; nothing for others.
std::optional<MmaNest> match_gathered_mma(const ForNode& loop, const MmaRow& row, Analyzer& known);
// The lines that a warp carries it out with: fragments to registers, then every product.
std::vector<std::string> mma_lines(const MmaNest& nest, CudaExpr& expr);
std::vector<std::string> sparse_mma_lines(const MmaNest& nest, CudaExpr& expr);

// Pieces of such lines: the head of a loop over fragments; the one that brings fragment `g` of B to
// registers `b`[g], or two at once where `pairs` says so; the sums of fragments `f` and `g`.
std::string mma_loop(const std::string& var, int64_t extent);
std::string mma_load_b(const MmaNest& nest, bool pairs, const std::string& b, const std::string& g,
                       const std::string& lane, CudaExpr& expr);
std::string mma_sums(const MmaNest& nest, const std::string& f, const std::string& g,
                     CudaExpr& expr);

}  // namespace tilewright
