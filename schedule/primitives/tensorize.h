// Inner loops that are one instruction.
#pragma once

#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// tensorize(loop="j_1", intrinsic="avx512.vpdpbusd", computes="expr:expr=…"):
//   for j_1 in 0..16 { for k_1 in 0..4 { C(…): C[…] += A[…] * B[…] }}
// ->
//   for j_1 in 0..16 @{intrinsic: "avx512.vpdpbusd"} { … }
// The loops stay what the program means; code generation puts the intrinsic in their place.
// Requires: serial loops, perfectly nested down to one block that holds one store and has neither an
// init (decompose_reduction comes first) nor a predicate over these loops; loops and operands that
// are those of `computes`, the intrinsic's tensor expression (schedule/tensor_match.h), whatever
// their order and names.
struct Tensorize {
  static constexpr std::string_view kName = "tensorize";
  std::string loop, intrinsic, computes;
  template <class F>
  void visit_fields(F&& f) {
    f("loop", loop);
    f("intrinsic", intrinsic);
    f("computes", computes);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> tensorize_primitives();

}  // namespace tilewright
