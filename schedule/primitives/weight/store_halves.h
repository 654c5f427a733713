// Storage of a number as two numbers of a narrower type.
#pragma once

#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// Splits each stored number into a rounded value and the rounding error. With
// store_halves(block="V", type="f16"):
//
//   V[k, j] = x
//   C(i, j, k): C[i, j] += A[i, k] * V[k, j]
// ->
//   V: f16[2, …]
//   V(half, k, j): V[half, k, j] = select(half == 0, cast<f16>(x),
//                                         cast<f16>(x - cast<f32>(cast<f16>(x))))
//   C(i, j, k, half): C[i, j] += A[i, k] * cast<f32>(V[half, k, j])
//
// Instructions that take operands of `type` then sum the rounded value and, as further terms, the
// rounding error: together they have twice as many digits. Where x is 0 unless a condition holds,
// both halves are. The result changes only by the rounding of the second half.
//
// Requires:
//  - A block as compute_inline takes it that is the only writer of an intermediate of f32.
//  - Readers that add products to a sum, with the value as one factor.
//  - f16 or bf16.
struct StoreHalves {
  static constexpr std::string_view kName = "store_halves";
  std::string block, type;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("type", type);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> store_halves_primitives();

}  // namespace tilewright
