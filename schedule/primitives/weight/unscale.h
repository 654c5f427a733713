// Storage of elements without the factor that many of them share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// unscale(block="V", type="f16"):
//   V[k, j] = (cast<f32>(B[k, j]) - cast<f32>(Z[k/32, j])) * cast<f32>(S[k/32, j])
//   C[i, j] += A[i, k] * V[k, j]
// ->
//   V: f16  V[k, j] = cast<f16>(B[k, j]) - cast<f16>(Z[k/32, j])
//   C[i, j] += A[i, k] * (cast<f32>(V[k, j]) * cast<f32>(S[k/32, j]))
// The unscaled value is stored as `type`, and each reader applies the factor. Matrix instructions
// can then take the value, and factor_scale the factor. A value may be zero under a condition, as
// padding makes it; the factor is then read within the bounds of its buffer.
//
// Requires:
//  - A block as compute_inline takes it. Its value is an element of a parameter, with an optional
//    rounding to another type, an optional subtracted element, and an optional factor.
//  - The type of that value, or a type that holds every such difference of elements of at most 8
//    bits exactly. The type that they are rounded to must hold them, too.
struct Unscale {
  static constexpr std::string_view kName = "unscale";
  std::string block, type;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("type", type);
  }
  Applied apply(const Module& module) const;
};

// True when `type` holds every difference of a code of `codes` and a code of `zeros`. Codes are
// rounded to `rounded` first, where given; without `zeros`, the codes themselves count.
bool holds_differences(ElemType codes, std::optional<ElemType> zeros, ElemType type,
                       std::optional<ElemType> rounded = std::nullopt);

// The type to which such a value's element is rounded before anything else, or nothing.
std::optional<ElemType> rounding_of(const Expr& value);

std::vector<PrimitiveEntry> unscale_primitives();

}  // namespace tilewright
