// Intermediates with values of their own in the padding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// pad_values(block="M", multiples=[16, 32]), for m = 30, n = 50:
//   M(i, j): M[i] = max(M[i], X[i, j])
// ->
//   M(i, j): M[i] = max(M[i], select(i < 30 && j < 50, X[i, j], -inf))     over 32 x 64, M: [32]
// The block runs over whole tiles, and nothing is read beyond what there was: what is added to a
// reduction is the value that changes nothing, what is stored otherwise zero. Where a value is that
// already unless a condition holds, the two conditions become one.
// One multiple an iterator, in their order.
// Requires: a block as it was lowered, which stores one value to an intermediate that no other block
// writes, or reduces to it by a sum, a maximum or a minimum from its identity; padded spatial iterators
// that are indices of the store.
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
