// Primitives that rewrite reductions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// decompose_reduction(block="C", loop="k"):
//   for i { for k { C(i, k) init { C[i] = 0 }  C[i] += A[i, k] }}
// ->
//   for i { C_init(i) { C[i] = 0 }  for k { C(i, k)  C[i] += A[i, k] }}
// The init moves to a block before `loop`. The loops at and under `loop` that the init needs are
// copied around it ("<loop>_init"). Results: the init block "<block>_init".
//
// Requires: a block with an init; `loop` around it, in the same scope; no reduction that starts
// outside `loop`. No loop at or under `loop` may take part in both spatial and reduce iterators, or
// merely repeat iterations.
struct DecomposeReduction {
  static constexpr std::string_view kName = "decompose_reduction";
  std::string block, loop;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("loop", loop);
  }
  Applied apply(const Module& module) const;
};

// rfactor(block="C", loop="k_0", factor_axis=0):
//   for i { for k_0 { for k_1 { C(i, k): C[i] += A[i, k] }}}
// ->
//   for i { for k_0 { for k_1 { C_rf(i, k_0, k_1): C_rf[k_0, i] += A[i, k_0*16 + k_1] }}}
//   for i_wb { for k_0_wb { C(i_wb, k_0_wb): C[i_wb] += C_rf[k_0_wb, i_wb] }}
// The partial result goes to a new buffer whose dimension `factor_axis` (counted from the end when
// negative) is the loop. Results: the partial block "<block>_rf".
//
// Requires:
//  - A block that reduces one element by a sum, max or min from its identity.
//  - A nest with no branching down to it, with `loop` in it. `loop` starts at 0 and takes part only
//    in reduce iterators.
struct Rfactor {
  static constexpr std::string_view kName = "rfactor";
  std::string block, loop;
  int factor_axis = 0;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("loop", loop);
    f("factor_axis", factor_axis);
  }
  Applied apply(const Module& module) const;
};

// pad_einsum(block="C", multiples=[16, 16, 4]), for m = 30, n = 16, k = 6:
//   C(i, j, k): C[i, j] += A[i, k] * B[k, j]
// ->
//   A_pad[i, k] = select(i < 30 && k < 6, A[i, k], 0)      over 32 x 8
//   B_pad[k, j] = select(k < 6, B[k, j], 0)                over 8 x 16
//   C(i, j, k): C_pad[i, j] += A_pad[i, k] * B_pad[k, j]   over 32 x 16 x 8
//   C[i, j] = C_pad[i, j]                                  (block "C_unpad")
// An operand is read without a copy under two conditions. It is long enough along padded spatial
// iterators, and its writer makes it zero by a condition along padded reduce iterators. `multiples`
// has one entry per iterator, in their order. Results: the new blocks.
//
// Requires:
//  - A block as it was lowered (each iterator is its own loop, no predicate).
//  - Indices that use a padded iterator are that iterator alone, and a padded spatial one is an
//    index of the store.
//  - Where a reduce iterator is padded, a sum of products whose every factor reads along it (so
//    the padding adds exact zeros).
//
// An integer factor may be read along a window, as in A[i * 2 + k]. It is then read beyond the
// window, for products with the zeros that pad another factor.
struct PadEinsum {
  static constexpr std::string_view kName = "pad_einsum";
  std::string block;
  std::vector<int64_t> multiples;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("multiples", multiples);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> reduction_primitives();

// A block's body in the form `buffer[indices] = combine(buffer[indices], value)`.
struct Reduction {
  const StoreNode* store = nullptr;
  Reducer reducer = Reducer::None;
  Expr value;
};
// `value` is undefined when the block is no reduction by a sum, max or min from its identity.
Reduction match_reduction(const BlockNode& block);
// `value` is undefined when the store is no such update of its element, whichever value that begins with.
Reduction match_update(const StoreNode& store);

}  // namespace tilewright
