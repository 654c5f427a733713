// Conversion of a factor of a sum of products to another type.
#pragma once

#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// Stores a factor as another type with an offset, and starts the sums at a correction. With
// convert_operand(block="C", buffer="A", type="u8", offset=128), A in i8 and sums in i32:
//
//   C(i, j, k) init { C[i, j] = 0 }  C[i, j] += i32(A[i, k]) * i32(B[k, j])
// ->
//   A_u8[i, k] = u8(A[i, k]) + 128
//   C_offset[j] += i32(B[k, j]) * -128                    from 0, over k
//   C(i, j, k) init { C[i, j] = C_offset[j] }  C[i, j] += i32(A_u8[i, k]) * i32(B[k, j])
//
// The result is exact, since integer sums wrap around. With an offset of 0 there is no second
// block.
//
// Results: the blocks "<buffer>_<type>" and "<block>_offset".
//
// Requires:
//  - A block as it was lowered that sums a product in an integer type.
//  - `buffer` is one of its factors, cast to that type. All its elements have values (no padding of
//    a layout).
//  - A type that holds all values of the buffer's type with the offset added.
struct ConvertOperand {
  static constexpr std::string_view kName = "convert_operand";
  std::string block, buffer, type;
  int64_t offset = 0;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("buffer", buffer);
    f("type", type);
    f("offset", offset);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> convert_operand_primitives();

}  // namespace tilewright
