// The table of intrinsics: instructions that compute more than a lane's worth each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/target.h"
#include "schedule/tensor_match.h"

namespace tilewright {

// C that functions need around the calls of a row, as AMX its tiles configured.
struct KernelSection {
  std::string_view code;        // declarations, once a kernel
  std::string_view begin, end;  // statements
};

// A row. Adding an instruction adds one, and no code (docs/adding-an-intrinsic.md).
struct Intrinsic {
  std::string_view name;  // "avx512.vpdpbusd"
  // What it computes, as the spec of a tensor expression that tells how the operands lie
  // (TensorSemantics).
  std::string_view computes;
  // What the processor must have, by the names of cpu_features.h, which are those of -m options.
  std::vector<std::string> features;
  // A C function {name}, which takes and gives an accumulator of type {T} (the output's elements as
  // one vector), and takes the addresses of the two other operands, the first of P elements (or of
  // P for each lane), the second of P for each lane of the accumulator: what CallOp::Dot does. {I}
  // is the vector of as many 32-bit integers, {A} and {B} those of the operands in memory.
  std::string code;
  // When not 0, it is exact only for elements of the second operand of at most this size.
  int64_t most_of_b = 0;
  KernelSection section = {};

  const TensorSemantics& semantics() const;
  // Whether each lane of the accumulator has terms of its own in the first operand, too.
  bool takes_each() const;
  // Whether it is exact for all values of a second operand that was of this type.
  bool takes_second(ElemType elem) const;
};

const std::vector<Intrinsic>& intrinsics();
// Null when there is none.
const Intrinsic* find_intrinsic(std::string_view name);
// The rows that code for `target` may use, in the order of the table: of two that compute the same,
// the faster one stands first.
std::vector<const Intrinsic*> intrinsics_of(const Target& target);
// The row that computes a CallOp::Dot of these types on `target`; null when there is none.
const Intrinsic* find_dot(const Target& target, Type acc, Type a, Type b);

}  // namespace tilewright
