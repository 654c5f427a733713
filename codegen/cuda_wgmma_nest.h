// Loops that are asynchronous matrix instructions of warpgroups.
//
// A schedule marks the outermost of some loops with the annotation kMmaKey (codegen/cuda_mma.h), the
// name of a row of wgmma_rows.h: s over instructions along k and f over those of further rows, in any
// order and where there are several, then the row, the column and the term of what one warp computes
// (there may be two loops along k: over spans of memory, and over the instructions of one),
//
//   for w in 0..8 warp { for s in 0..4 @{mma: "m64n128k16_f32_f16"} { for f in 0..2 {
//     for i in 0..16 { for j in 0..128 { for k in 0..16 {
//       C[…, j / 8, lane, register] = C[…] + A[…] * B[…] }}}}}}
//
// in a loop over warps, four neighbours of which read 64 rows of A, 16 each, and the same columns of B.
// C is private to threads, its last two dimensions the lane and the register of acc_place(). A and B are
// tiles in shared memory that lie as a matrix descriptor says: it is found from their indices and the
// array's swizzle. The marked loop is a group of its own, from the fence to the wait.
//
// A may be private, too: its last two dimensions are then the lane and the place among the lane's
// elements by wgmma_a_place(), register by register. That is how weights of a few bits are multiplied,
// which their threads unpack: A is the weight then, with its columns as rows.
//
// A row of sparse_wgmma_rows.h has what is kept of A private and B read at the places that the elements
// stood at, as a sparse row of a warp has them (codegen/cuda_mma.h): the innermost loop runs over the
// kept terms of as many instructions as take their metadata from one register.
//
// A pipelined loop around it may be annotated kWgmmaPendingKey: a group is then waited for behind the
// next one, and the last one behind the loop. What it reads stays for an iteration longer, so that
// copies run one iteration less ahead:
//
//   for k in 0..n @{pipeline_stages: 4, wgmma_pending: 1} { S[i] = A[k, i]   use S }
//   ->  …  for k in 0..n { wait(1)  barrier   if k + 2 < n { S[(k + 2) % 4, i] async= A[k + 2, i] }
//                          commit   use S[k % 4], waiting for the group of k - 1 }
//
// An unrolled loop may be annotated so, too, around what makes an A in registers and its marked nest:
// A of an iteration is made while the group before it runs. The registers of all iterations are
// allocated around the loop, and the last groups waited for behind it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/cuda_expr.h"
#include "codegen/sparse_wgmma_rows.h"
#include "codegen/wgmma_rows.h"
#include "ir/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

// An operand in shared memory: the element [0, 0] of the warpgroup's first instruction, and how far
// those of other ones lie apart, in elements before the swizzle. Of an A in registers the lane's first
// element, and no layout.
struct WgmmaOperand {
  Buffer buffer;
  Expr start;
  WgmmaLayout layout;
  int64_t step = 0, fragment = 0, span = 0;
};

// What a sparse A has besides: metadata.
struct WgmmaMetadata {
  const SparseWgmmaRow* row = nullptr;  // null where A is not sparse
  Buffer words;
  Expr start;                      // of this lane's word for the first step and fragment
  int64_t step = 0, fragment = 0;  // how far those of others lie apart
  int64_t next = 0;  // how far the elements of A of the instructions of one word lie apart
};

// A marked nest over flat buffers, taken apart.
struct WgmmaNest {
  const WgmmaRow* row;  // of a sparse one: as if A were whole
  int64_t steps = 1, fragments = 1;
  int64_t spans = 1;  // each of so many steps
  Buffer sums;
  Expr sums_start;
  int64_t sums_fragment = 0;  // how far the sums of neighbouring fragments lie apart
  WgmmaOperand a, b;
  WgmmaMetadata sparse = {};

  bool a_in_registers() const;
  // Instructions of a step and a fragment: those that share a word of metadata.
  int in_step() const { return sparse.row ? sparse.row->warp.selectors() : 1; }
  int64_t instructions() const { return spans * steps * fragments * in_step(); }
  // A as it is stored.
  MmaRow stored() const { return sparse.row ? sparse.row->warp.stored() : row->warp; }
  // Multiply-adds of a warpgroup, those of elements that are not kept left out.
  int64_t products() const { return instructions() * WgmmaRow::m * row->n() * stored().k; }
};

inline constexpr const char* kWgmmaPendingKey = "wgmma_pending";
// Whether the loop is so annotated.
bool leaves_wgmma_pending(const ForNode& loop);

// The row that a loop is marked with, of a sparse one as if A were whole; null where it is no such mark.
const WgmmaRow* wgmma_mark(const ForNode& loop);
// Whether the kernel has such loops.
bool has_wgmma(const Stmt& kernel);
// Whether threads store what such loops read from shared memory: barriers then stand behind a fence to
// the asynchronous proxy.
bool stores_wgmma_operands(const Stmt& kernel);

// The elements of a row of an array that is swizzled; 0 for other arrays.
using SwizzledRow = std::function<int64_t(const Buffer&)>;

// `thread` is the axis of threads around. Throws LoweringError that names the loop and what is not as
// it has to be.
WgmmaNest match_wgmma(const ForNode& loop, const Expr& thread, const SwizzledRow& swizzled_row,
                      Analyzer& known);
// The same of one that is marked with a sparse row.
WgmmaNest match_sparse_wgmma(const ForNode& loop, const SparseWgmmaRow& row, const Expr& thread,
                             const SwizzledRow& swizzled_row, Analyzer& known);
// The same whose A is whole, whatever the loop is marked with.
WgmmaNest match_whole_wgmma(const ForNode& loop, const Expr& thread,
                            const SwizzledRow& swizzled_row, Analyzer& known);
// The lines that a warpgroup carries it out with; `pending` groups stay in flight behind them.
std::vector<std::string> wgmma_lines(const WgmmaNest& nest, int pending, CudaExpr& expr);
// Those that end what stayed in flight.
std::vector<std::string> wgmma_end_lines(const WgmmaNest& nest, CudaExpr& expr);

// At multiples of how many bytes shared arrays begin that are operands.
inline constexpr int64_t kWgmmaAlign = 1024;

}  // namespace tilewright
