// Loop nests that are asynchronous matrix instructions of warpgroups (wgmma).
//
// A schedule marks the outermost loop of a nest as kInstructionKey, by the name of a row of wgmma_rows(). The outer loops are s over instructions along k and f over
// those of further rows, in any order, where there are several. There may be two loops along k:
// over spans of memory, and over the instructions of one. The inner loops are the row, the column
// and k of one warp's part,
//
//   for w in 0..8 warp { for s in 0..4 @{instruction: "m64n128k16_f32_f16"} { for f in 0..2 {
//     for i in 0..16 { for j in 0..128 { for k in 0..16 {
//       C[…, j / 8, lane, register] = C[…] + A[…] * B[…] }}}}}}
//
// in a loop over warps. Four neighbouring warps read 64 rows of A, 16 each, and the same columns of
// B. C is private to threads. Its last two dimensions are the lane and the element of Instruction::d().
// A and B are tiles in shared memory, whose layout is that of a matrix descriptor. The descriptor
// is found from their indices and the array's swizzle. The marked loop is a group of its own, from
// the fence to the wait.
//
// A may be private, too. Its last two dimensions are then the lane, and the place among the lane's
// elements by Instruction::a(). Weights of a few bits, which their threads
// unpack, are multiplied so. A is then the weight, with its columns as rows (swap AB).
//
// With a row of sparse_wgmma_rows(), A's kept elements are private. B is read at the places where
// these stood, as with a sparse row of a warp (codegen/cuda/instructions/cuda_mma.h). The innermost loop runs over
// the kept elements of as many instructions as take their sparse metadata from one register.
//
// A pipelined loop around it may be annotated kWgmmaPendingKey. A group is then waited for behind
// the next one, and the last one behind the loop. Its operands stay for an iteration longer, so
// that copies run one iteration less ahead:
//
//   for k in 0..n @{pipeline_stages: 4, wgmma_pending: 1} { S[i] = A[k, i]   use S }
//   ->  …  for k in 0..n { wait(1)  barrier   if k + 2 < n { S[(k + 2) % 4, i] async= A[k + 2, i] }
//                          commit   use S[k % 4], waiting for the group of k - 1 }
//
// An unrolled loop may be annotated so, too, around the code that makes an A in registers and its
// marked nest. A of an iteration is made while the group before it runs. The registers of all
// iterations are allocated around the loop, and the last groups are waited for behind it.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/cuda_expr.h"
#include "codegen/cuda/instructions/cuda_sparse_parts.h"
#include "ir/arith/simplify.h"
#include "ir/stmt.h"
#include "kernel/instructions/wgmma_layout.h"
#include "kernel/instructions/wgmma_rows.h"

namespace tilewright {

// An operand in shared memory: the element [0, 0] of the warpgroup's first instruction, and the
// distances to those of other ones. Distances are in elements before the swizzle. For an A in
// registers `start` is the lane's first element, and there is no layout.
struct WgmmaOperand {
  Buffer buffer;
  Expr start;
  WgmmaLayout layout;
  int64_t step = 0, fragment = 0, span = 0;
};

// The parts of a marked nest over flat buffers.
struct WgmmaNest {
  const Instruction* row;
  int64_t steps = 1, fragments = 1;
  int64_t spans = 1;  // each of so many steps
  Buffer sums;
  Expr sums_start;
  int64_t sums_fragment = 0;  // the distance between the accumulators of neighbouring fragments
  WgmmaOperand a, b;
  SparseWords sparse = {};  // of a sparse A

  bool a_in_registers() const;
  // Instructions per step and fragment: those that share a word of metadata.
  int in_step() const { return row->selectors(); }
  int64_t instructions() const { return spans * steps * fragments * in_step(); }
  // Multiply-adds of a warpgroup, without those of elements that are not kept.
  int64_t products() const { return instructions() * row->m * row->n * row->kept(); }
};

inline constexpr const char* kWgmmaPendingKey = "wgmma_pending";
// Whether the loop is so annotated.
bool leaves_wgmma_pending(const ForNode& loop);

// `thread` is the axis of threads around. Throws LoweringError that names the loop and the
// requirement that it misses.
WgmmaNest match_wgmma(const ForNode& loop, const Expr& thread, Analyzer& known);
// The lines with which a warpgroup executes it; `pending` groups stay in flight behind them.
std::vector<std::string> wgmma_lines(const WgmmaNest& nest, int pending, CudaExpr& expr);
// The lines that end what stayed in flight.
std::vector<std::string> wgmma_end_lines(const WgmmaNest& nest, CudaExpr& expr);

// Alignment in bytes of shared arrays that are operands.
inline constexpr int64_t kWgmmaAlign = 1024;

}  // namespace tilewright
