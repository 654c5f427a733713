// Padding of intermediates with neutral values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// Runs a block over whole tiles. With pad_values(block="M", multiples=[16, 32]), for m = 30, n =
// 50:
//
//   M(i, j): M[i] = max(M[i], X[i, j])
// ->
//   M(i, j): M[i] = max(M[i], select(i < 30 && j < 50, X[i, j], -inf))     over 32 x 64, M: [32]
//
// No element beyond the old extents is read. A reduction gets its neutral value there, and any
// other store a zero. Where a condition already selects that value, the two conditions become one.
// `multiples` has one entry per iterator, in their order.
//
// Requires:
//  - A block as it was lowered, which stores one value to an intermediate that no other block
//    writes, or reduces into it by a sum, a maximum or a minimum from its identity.
//  - Padded spatial iterators are indices of the store.
struct PadValues {
  static constexpr std::string_view kName = "pad_values";
  std::string block;
  std::vector<int64_t> multiples;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("multiples", multiples);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> pad_values_primitives();

}  // namespace tilewright
