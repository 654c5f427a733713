// Intermediates that hold the same values become one.
#pragma once

#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// deduplicate(block="T_1", like="T"):
//   T[i] = A[i] * 2   C[j] = T[j]   T_1[i] = A[i] * 2   D[j] = T_1[j]
// ->
//   T[i] = A[i] * 2   C[j] = T[j]   D[j] = T[j]
// What `block` stores is what `like` has stored: its readers read that, and the block goes.
// Requires: two blocks as compute_inline takes them, `like` first, each the only writer of an
// intermediate and alone in its loops; equal iterators, values, and buffers but for their names;
// nothing written behind `like` that they read.
struct Deduplicate {
  static constexpr std::string_view kName = "deduplicate";
  std::string block, like;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("like", like);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> deduplicate_primitives();

}  // namespace tilewright
