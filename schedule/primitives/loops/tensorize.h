// Replacement of inner loops by one instruction.
#pragma once

#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// tensorize(loop="j_1", intrinsic="avx512.vpdpbusd", computes="expr:expr=…"):
//   for j_1 in 0..16 { for k_1 in 0..4 { C(…): C[…] += A[…] * B[…] }}
// ->
//   for j_1 in 0..16 @{intrinsic: "avx512.vpdpbusd"} { … }
// The loops keep the program's meaning; code generation replaces them by the intrinsic.
//
// Requires:
//  - Serial loops, perfectly nested down to one block. The block holds one store. It has no init
//    (decompose_reduction comes first) and no predicate over these loops.
//  - Loops and operands that match `computes`, the intrinsic's tensor expression
//    (schedule/tensor_match.h), in any order and under any names.
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
