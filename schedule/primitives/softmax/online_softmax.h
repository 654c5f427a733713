// Online softmax: dependent reductions over a common axis in one loop.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// Fuses a row maximum and the reductions that are weighted with it into one loop over blocks of
// keys. With online_softmax(block="M", factor=32), over rows i and an axis j of 128:
//
//   for i { for j { M(i, j): M[i] = max(M[i], X[i, j]) }}
//   for i { for j { P(i, j): P[i, j] = exp(X[i, j] - M[i]) }}
//   for i { for j { L(i, j): L[i] += P[i, j] }}
//   for i { for e { for j { O(i, e, j): O[i, e] += P[i, j] * V[j, e] }}}
// ->
//   for i { M[i] = -inf }  for i { L[i] = 0 }  for i { for e { O[i, e] = 0 }}
//   for j_0 in 0..4 {
//     for i { M_last[i] = M[i] }
//     for i { for j_1 in 0..32 { M[i] = max(M[i], X[i, j_0*32 + j_1]) }}
//     for i { M_from[i] = select(M[i] > -inf, M[i], 0) }
//     for i { M_shift[i] = exp(M_last[i] - M_from[i]) }
//     for i { for j_1 { P[i, j_0*32 + j_1] = exp(X[i, j_0*32 + j_1] - M_from[i]) }}
//     for i { L[i] = L[i] * M_shift[i] }
//     for i { for j_1 { L[i] += P[i, j_0*32 + j_1] }}
//     for i { for e { O[i, e] = O[i, e] * M_shift[i] }}
//     for i { for e { for j_1 { O[i, e] += P[i, j_0*32 + j_1] * V[j_0*32 + j_1, e] }}}
//   }
//
// Weights exp(x - maximum) use the running maximum. Accumulators are rescaled to the new maximum
// before more is added (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018;
// Dao et al., "FlashAttention", 2022). A row that has seen only -inf uses 0 instead of its maximum,
// so that all its weights are 0. Float sums are reassociated.
//
// A condition may hide elements: they are -inf in X, and their weights are 0. It may fail for all
// later j once it fails (j <= i + c). The loop then ends with the last block that some row of the
// nests sees. It may hold for all later j once it holds (i + c < j). The loop then begins with the
// first such block. Several conditions that must all hold do both.
//
// Results: the loop, then the new blocks "<M>_init", "<M>_last", "<M>_from", "<M>_shift", and for
// each sum "<sum>_init" and "<sum>_rescale".
//
// Requires:
//  - A block that takes the maximum of floats along one loop, in a nest of serial loops beside the
//    nests of the other blocks.
//  - Blocks beside it whose value is homogeneous in the weights. Allowed are exp(x - M[row]) of the
//    x that the maximum is of, and elements that such a block stores for each j. Products and
//    quotients of these with values that do not depend on the maximum, sums of several, and
//    selections by such values are allowed, too.
//  - Blocks that store a value for each j (a weight) are read only by others of them. The other
//    blocks sum over j. All write intermediates.
struct OnlineSoftmax {
  static constexpr std::string_view kName = "online_softmax";
  std::string block;
  int64_t factor = 0;  // values of j per iteration
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("factor", factor);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> online_softmax_primitives();

}  // namespace tilewright
