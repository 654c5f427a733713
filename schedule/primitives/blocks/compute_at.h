// Primitives that move blocks under other blocks' loops.
#pragma once

#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// Moves a producer under `loop`, before its first consumer there, over the region of its buffer
// that the consumers read in one iteration:
//
//   for i { T[i] = … }  for i_0 { for i_1 { C[i_0*4 + i_1] = T[i_0*4 + i_1] } }
//   ->  for i_0 { for T_ax0 in 0..4 { T[i_0*4 + T_ax0] = … }  for i_1 { C[…] = T[…] } }
//
// The block gets one loop per iterator, even for iterators with a single value. Iterators that the
// region does not determine run over their whole extent. Elements that several iterations need are
// computed in each of them; the buffer keeps its shape.
//
// Requires:
//  - The block is the only writer of one intermediate buffer.
//  - All its consumers are under `loop`.
//  - `loop` has the same scope, stands outside the block's loops, and is in no vectorized loop.
//  - The block's predicate states only that its bindings lie in the iterators' extents.
struct ComputeAt {
  static constexpr std::string_view kName = "compute_at";
  std::string block, loop;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("loop", loop);
  }
  Applied apply(const Module& module) const;
};

// Moves a consumer under `loop`, after its last producer there. It runs over the iterations that
// can be computed from what the producers store in one iteration:
//
//   for i_0 { for i_1 { T[i_0*4 + i_1] = … } }  for i { C[i] = T[i] }
//   ->  for i_0 { for i_1 { T[…] = … }  for C_ax0 in 0..4 { C[i_0*4 + C_ax0] = T[i_0*4 + C_ax0] } }
//
// Requires:
//  - The block is the only writer of one buffer.
//  - At least one of its producers is under `loop`, and the others are before it.
//  - Everything that it reads is complete in each iteration. Neither `loop` nor a loop above it
//    carries a producer's reduction. No element that another iteration stores is needed. The
//    block's own reduce iterators can run in full.
//  - `loop` and the block's predicate meet the requirements of compute_at.
struct ReverseComputeAt {
  static constexpr std::string_view kName = "reverse_compute_at";
  std::string block, loop;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("loop", loop);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> compute_at_primitives();

}  // namespace tilewright
