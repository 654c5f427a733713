// Storage of intermediates in the type that their values are rounded to.
#pragma once

#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// store_rounded(block="P"), P in f32:
//   P[i, j] = cast<f32>(cast<f16>(x))
//   C(i, e, j): C[i, e] += P[i, j] * cast<f32>(V[j, e])
// ->
//   P: f16[…]
//   P[i, j] = cast<f16>(x)
//   C(i, e, j): C[i, e] += cast<f32>(P[i, j]) * cast<f32>(V[j, e])
// This stores the same numbers in fewer bytes, in the type that instructions take.
//
// Requires:
//  - A block as compute_inline takes it that is the only writer of an intermediate.
//  - A value that is converted from a narrower float, all values of which the buffer's type holds.
struct StoreRounded {
  static constexpr std::string_view kName = "store_rounded";
  std::string block;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> store_rounded_primitives();

}  // namespace tilewright
