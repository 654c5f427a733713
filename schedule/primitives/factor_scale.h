// Scales that are applied to sums.
#pragma once

#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// factor_scale(block="C", loop="k_1", type="f32"), with groups of 32 along k:
//   for i { for j { for k_0 { for k_1 { C(i, j, k): C[i, j] += A[i, k] * ((B[k, j] - Z[k/32, j]) * S[k/32, j]) }}}}
// ->
//   C_sum[i, k_0] += A[i, k_0*32 + k_1]                      from 0, in front of all
//   for i { for j { for k_0 {
//     C_partial[i, j] = 0
//     for k_1 { C_partial[i, j] += A[i, k] * B[k, j] }
//     C[i, j] += (C_partial[i, j] - Z[k_0, j] * C_sum[i, k_0]) * S[k_0, j]
//   }}}
// Factors that the loops at and under `loop` do not change are applied to the partial sums over
// these loops, instead of to each term; what is subtracted from a factor there is taken off with
// the sum of the other factors. Partial sums are formed in `type`: with an integer type they are
// exact, and start at what a subtracted whole number takes off. Float sums are reassociated. Products of
// 8-bit floats may be summed so with nothing to apply: tensor cores add them with fewer bits than f32 has.
// Results: the partial block "<block>_partial", its init "<block>_partial_init", and "<block>_sum"
// where something is subtracted.
// Requires: a block that adds a product to what it stores, with no init (decompose_reduction comes
// first) and no predicate that reduction loops decide; serial loops from 0 to a constant between
// `loop` and the block, some of which are reductions; factors that vary in them being elements of
// buffers, cast to the type of the sum, of which one may have something subtracted; a type that
// holds the elements, and for integers the largest partial sum, exactly.
struct FactorScale {
  static constexpr std::string_view kName = "factor_scale";
  std::string block, loop, type;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("loop", loop);
    f("type", type);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> factor_scale_primitives();

}  // namespace tilewright
