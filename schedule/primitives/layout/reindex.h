// Copies of operands in the order of a block's own iterators.
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
// The new buffer has one dimension per iterator that an index of `buffer` uses, in their order. For
// a convolution's input this is the im2col operand that implicit GEMM reads. For the buffer that
// the block writes, the dimensions are all spatial iterators, and the copy stands behind the block.
// Results: the copy block "<buffer>_reindex", which is also the buffer's name.
//
// Requires:
//  - A block as it was lowered.
//  - Equal indices in all its accesses of `buffer`. They lie within the shape where a condition of
//    the block's value could keep the block from reading there.
//  - For a buffer that the block writes: the block is its only writer, its sums begin in the block,
//    and different iterations write different elements.
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
