// Split-KV: a softmax over parts of its axis, which are combined afterwards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// Splits a softmax into parts with a maximum each, as split-KV attention does. With
// split_softmax(block="M", parts=4), over rows i and an axis j of 128:
//
//   for i { for j { M(i, j): M[i] = max(M[i], X[i, j]) }}
//   for i { for j { P(i, j): P[i, j] = exp(X[i, j] - M[i]) }}
//   for i { for j { L(i, j): L[i] += P[i, j] }}
//   for i { for e { for j { O(i, e, j): O[i, e] += P[i, j] * V[j, e] }}}
// ->
//   for p in 0..4 { for i { for j in 0..32 { M: M_own[p, i] = max(M_own[p, i], X[i, p*32 + j]) }}}
//   for p { for i { for j { P: P[p, i, j] = exp(X[i, p*32 + j] - M_own[p, i]) }}}
//   for p { for i { for j { L: L_own[p, i] += P[p, i, j] }}}
//   for p { for i { for e { for j { O: O_own[p, i, e] += P[p, i, j] * V[p*32 + j, e] }}}}
//   for p { for i { M_part[p, i] = M_own[p, i] }}
//   for p { for i { L_part[p, i] = L_own[p, i] }}
//   for p { for i { for e { O_part[p, i, e] = O_own[p, i, e] }}}
//   for i { for p { M_all: M[i] = max(M[i], M_part[p, i]) }}
//   for p { for i { M_scale[p, i] = select(M_part[p, i] > -inf, exp(M_part[p, i] - M[i]), 0) }}
//   for i { for p { L_all: L[i] += select(M_scale[p, i] > 0, L_part[p, i] * M_scale[p, i], 0) }}
//   for i { for e { for p { O_all: O[i, e] += select(M_scale[p, i] > 0, O_part[p, i, e] * …, 0) }}}
//
// Each part takes its weights from its own maximum. Its sums are homogeneous in the weights, so a
// factor rescales them to the overall maximum (Dao et al., "Flash-Decoding for long-context
// inference", 2023). A part of a row that holds only -inf adds nothing, whatever its own sums are.
// A part that holds only NaN adds nothing either where a maximum ignores NaN.
//
// Parts may run in parallel and are added up in their order. Float sums are reassociated. Values
// that one block passes to another are copied. A part's own maximum and sums may therefore be
// private to the threads that compute them.
//
// Results: the copies "<block>_part" for the maximum and for each sum, then "<M>_all", "<M>_scale"
// and for each sum "<sum>_all".
//
// Requires: the conditions of online_softmax, an axis whose extent is known to be a multiple of
// `parts`, and no predicates.
struct SplitSoftmax {
  static constexpr std::string_view kName = "split_softmax";
  std::string block;
  int64_t parts = 0;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("parts", parts);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> split_softmax_primitives();

}  // namespace tilewright
