// Moving blocks under other blocks' loops.
#pragma once

#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// Moves a producer under `loop`, before its first consumer there, over the region of its buffer that
// the consumers read in one iteration:
//
//   for i { T[i] = … }  for i_0 { for i_1 { C[i_0*4 + i_1] = T[i_0*4 + i_1] } }
//   ->  for i_0 { for T_ax0 in 0..4 { T[i_0*4 + T_ax0] = … }  for i_1 { C[…] = T[…] } }
//
// The block gets a loop for each of its iterators, also for those that run over one value. Iterators
// that the region does not determine run over their whole extent. Elements that several iterations
// need are computed in each of them; the buffer keeps its shape.
// Requires: the block is the only writer of one intermediate buffer; all its consumers stand under
// `loop`, which has the same scope, stands outside the block's loops and in no vectorized loop; its
// predicate says no more than that its bindings lie in the iterators' extents.
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

// Moves a consumer under `loop`, after its last producer there, over what can be computed from the
// elements that the producers store in one iteration:
//
//   for i_0 { for i_1 { T[i_0*4 + i_1] = … } }  for i { C[i] = T[i] }
//   ->  for i_0 { for i_1 { T[…] = … }  for C_ax0 in 0..4 { C[i_0*4 + C_ax0] = T[i_0*4 + C_ax0] } }
//
// Requires: the block is the only writer of one buffer; at least one of its producers stands under
// `loop` and the others before it; what it reads is complete in each iteration (no reduction of a
// producer is carried by `loop` or a loop above it, no element that another iteration stores is
// needed, the block's own reduce iterators can run in full); and, of `loop` and the block's
// predicate, the same as for compute_at.
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
