// Operands in the order of a block's own iterators.
#pragma once

#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// reindex(block="Y", buffer="X"):
//   Y(o, r, c): Y[o] += X[o * 2 + r, c] * W[r, c]
// ->
//   X_reindex[o, r, c] = X[o * 2 + r, c]
//   Y(o, r, c): Y[o] += X_reindex[o, r, c] * W[r, c]
//
// The new buffer has a dimension for each iterator that an index of `buffer` uses, in their order:
// of a convolution's input it is what implicit matrix products read. For the buffer that the block
// writes it has all spatial iterators, and the copy stands behind the block. Results: the copy block
// "<buffer>_reindex", which is also the buffer's name.
// Requires: a block as it was lowered; equal indices in all its accesses of `buffer`, within the
// shape where a condition of the block's value could keep it from reading there. Of the buffer that it writes it must be the only writer, its sums begin in the block, and
// different iterations write different elements.
struct Reindex {
  static constexpr std::string_view kName = "reindex";
  std::string block, buffer;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("buffer", buffer);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> reindex_primitives();

}  // namespace tilewright
