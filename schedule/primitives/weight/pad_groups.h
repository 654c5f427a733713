// Padding of a scaled weight's groups to a length that instructions take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// Pads each group along a reduction with zeros. With pad_groups(block="C", value="B_value",
// group=3, to=4), for k = 8:
//
//   B_value[k, j] = B[k, j] * S[k/3, j]
//   C[i, j] += A[i, k] * B_value[k, j]
// ->
//   A_groups[i, g*4 + e] = select(e < 3 && g*3 + e < 8, A[i, g*3 + e], 0)      g in 0..3, e in 0..4
//   B_groups[p, j] = select(p%4 < 3 && p/4*3 + p%4 < 8, B[p/4*3 + p%4, j], 0)  p in 0..12
//   B_value[p, j] = B_groups[p, j] * S[p/4, j]
//   C[i, j] += A_groups[i, p] * B_value[p, j]
//
// Each group begins at a multiple of `to`, and zeros fill it up. The last group is as long as the
// others. With `group` of at least the reduction's extent, there is one group.
//
// Results: "A_groups" and "B_groups", blocks with the names of the buffers that they write.
// precompute moves the second one to the time when the weight is loaded.
//
// An infinite or NaN scale or zero point may turn a sum that would be an infinity into a NaN: zeros
// are multiplied by it. The caller accepts this.
//
// Requires:
//  - A block that sums products of two elements over one reduction of a constant extent. Both
//    elements are read at the reduction's iterator.
//  - One of them is written by block `value`, for this block alone. It depends on one weight at the
//    same position, and on values that all elements of a group share.
//  - Both blocks as they were lowered.
struct PadGroups {
  static constexpr std::string_view kName = "pad_groups";
  std::string block, value;
  int64_t group = 0, to = 0;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("value", value);
    f("group", group);
    f("to", to);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> pad_groups_primitives();

}  // namespace tilewright
