// Loops that are a reduction over the lanes of a warp, or of a team (kTeamKey), by shuffles.
//
// A schedule marks the loop as kShuffle. It stands in one over warps or teams, and has one iteration
// per lane. Each lane has one term, or all that the loops under this one run over, which it reduces
// by itself first:
//
//   for w in 0..8 warp { for l in 0..32 @{instruction: "shuffle"} { Y[w] = max(Y[w], X[w, l]) }}
//   ->  for tx in 0..256 thread_x { Y[tx / 32] = max(Y[tx / 32], X[tx / 32, tx % 32]), exchanged }
//
// hoist_threads() makes the loop's variable this lane. Each lane ends with the result of all lanes.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/cuda_expr.h"
#include "ir/stmt.h"

namespace tilewright {

// The parts of a marked loop of a lowered kernel: buffer[index] = op(term of each lane).
struct ShuffleNest {
  Buffer buffer;
  Expr index;
  BinaryOp op;
  Expr term;  // this lane's
  int64_t lanes;
};

// Throws LoweringError that names the buffer, unless the reduction is one of elements of 32 or 64 bits.
ShuffleNest match_shuffle(const ForNode& loop);
// The lines with which a warp executes it. The first lane stores the result, or each lane its own
// element.
std::vector<std::string> shuffle_lines(const ShuffleNest& nest, CudaExpr& expr);

}  // namespace tilewright
