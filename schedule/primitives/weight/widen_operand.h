// Conversion of stored elements to a type that instructions take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// widen_operand(buffer="B", type="u8", offset=8), for B: i4[8, 16]:
//   C[i, j] += f32(A[i, k]) * f32(B[k, j])
// ->
//   B_u8[v0, v1] = u8(B[v0, v1]) + 8
//   C[i, j] += f32(A[i, k]) * (f32(B_u8[k, j]) - 8)
// The conversion comes first in the program, over the whole buffer; compute_at moves it to where
// its elements are needed. Results: the block "<buffer>_<type>", which writes a buffer of that
// name. Reads that are rounded to the type become reads of the rounded elements.
//
// Requires:
//  - A parameter of the program, of elements of up to 8 bits or of f16 or bf16, read without a
//    predicate.
//  - A type that holds each code's value plus the offset exactly (with an offset, an integer type).
//  - Reads that are cast to a float of 32 or 64 bits, or to an integer of 32 bits. Without an
//    offset, reads that are all cast to the type are allowed as well.
struct WidenOperand {
  static constexpr std::string_view kName = "widen_operand";
  std::string buffer, type;
  int64_t offset = 0;
  template <class F>
  void visit_fields(F&& f) {
    f("buffer", buffer);
    f("type", type);
    f("offset", offset);
  }
  Applied apply(const Module& module) const;
};

// True when `to` holds the value of each code of `from` plus `offset` exactly. False for integers
// of more than 8 bits.
bool holds_codes(ElemType from, ElemType to, int64_t offset);

std::vector<PrimitiveEntry> widen_operand_primitives();

}  // namespace tilewright
