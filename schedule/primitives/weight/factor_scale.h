// Application of scales to partial sums instead of to each term.
#pragma once

#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// Moves loop-invariant factors out of a reduction. With factor_scale(block="C", loop="k_1",
// type="f32") and groups of 32 along k:
//
//   for i { for j { for k_0 { for k_1 { C(i, j, k): C[i, j] += A[i, k] * ((B[k, j] - Z[k/32, j]) * S[k/32, j]) }}}}
// ->
//   C_sum[i, k_0] += A[i, k_0*32 + k_1]                      from 0, in front of all
//   for i { for j { for k_0 {
//     C_partial[i, j] = 0
//     for k_1 { C_partial[i, j] += A[i, k] * B[k, j] }
//     C[i, j] += (C_partial[i, j] - Z[k_0, j] * C_sum[i, k_0]) * S[k_0, j]
//   }}}
//
// Factors that are invariant in the loops at and under `loop` are applied to the partial sums over
// these loops, instead of to each term. A value subtracted from a factor is applied through the sum
// of the other factors, and so is an offset: A[i, k] * (B[k, j] * S[k/32, j] + O[k/32, j]) gives
// C_partial[i, j] * S[k_0, j] + O[k_0, j] * C_sum[i, k_0]. Partial sums have the type `type`. Integer ones are exact, and start at the
// correction for a subtracted whole number. Float sums are reassociated. Products of 8-bit floats
// may be summed this way without any factor: tensor cores accumulate them with fewer bits than f32
// has.
//
// Results: the partial block "<block>_partial", its init "<block>_partial_init", and "<block>_sum"
// where something is subtracted or added.
//
// Requires:
//  - A block that adds a product to what it stores, with no init (decompose_reduction comes first)
//    and no predicate that depends on reduction loops.
//  - Serial loops from 0 to a constant between `loop` and the block, some of which are reductions.
//  - Factors that vary in these loops are elements of buffers, cast to the type of the sum. At most
//    one of them has something subtracted or added.
//  - A type that holds the elements, and for integers the largest partial sum, exactly.
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
