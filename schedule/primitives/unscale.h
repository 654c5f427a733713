// Stored elements without the factor that many of them share.
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
// What is multiplied is stored as `type`, and whoever reads it applies the factor, so that matrix
// instructions can take the one and factor_scale the other. A value may be zero under a condition,
// as padding makes it; the factor is then read within the bounds of its buffer.
// Requires: a block as compute_inline takes it, whose value is an element of a parameter, rounded to
// another type first or not, less an element of another one or not, times a factor or not; the type of
// that value, or one that holds every such difference of elements of at most 8 bits exactly, as the type
// that they are rounded to holds them.
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

// Whether `type` holds every code of `codes`, rounded to `rounded` where that is given, less every code of
// `zeros`, where there are some.
bool holds_differences(ElemType codes, std::optional<ElemType> zeros, ElemType type,
                       std::optional<ElemType> rounded = std::nullopt);

// The type to which the element of such a value is rounded before anything else, where it is.
std::optional<ElemType> rounding_of(const Expr& value);

std::vector<PrimitiveEntry> unscale_primitives();

}  // namespace tilewright
