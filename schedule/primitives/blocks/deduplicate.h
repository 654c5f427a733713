// Merging of intermediates that hold the same values.
#pragma once

#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// Makes the readers of one block's result read an equal, earlier result, and removes the block.
// With deduplicate(block="T_1", like="T"):
//
//   T[i] = A[i] * 2   C[j] = T[j]   T_1[i] = A[i] * 2   D[j] = T_1[j]
// ->
//   T[i] = A[i] * 2   C[j] = T[j]   D[j] = T[j]
//
// Requires:
//  - Two blocks as compute_inline takes them, `like` first. Each is the only writer of an
//    intermediate and alone in its loops.
//  - Equal iterators and values, and buffers that are equal except for their names.
//  - Nothing that they read is written after `like`.
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
