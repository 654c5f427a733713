// The table of intrinsics: instructions that each do more than one lane's worth of work.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/target.h"
#include "schedule/tensor_match.h"

namespace tilewright {

// C code that functions need around the calls of a row; AMX needs its tiles configured.
struct KernelSection {
  std::string_view code;        // declarations, once per kernel
  std::string_view begin, end;  // statements
};

// One row of the table. A new instruction is a new row, and no code (docs/adding-an-intrinsic.md).
struct Intrinsic {
  std::string_view name;  // "avx512.vpdpbusd"
  // The computation as the spec of a tensor expression, which gives the operands' layout
  // (TensorSemantics).
  std::string_view computes;
  // Features that the processor must have, by the names of cpu_features.h, those of -m options.
  std::vector<std::string> features;
  // A C function {name} that does what CallOp::Dot does. It takes and returns an accumulator of
  // type {T}, the output's elements as one vector. It takes the addresses of the two other
  // operands. The first has P elements (or P per lane), the second P per lane of the accumulator.
  // The type {I} is the vector of as many 32-bit integers; {A} and {B} are the operands' vectors in
  // memory.
  std::string code;
  // When not 0, the result is exact only for elements of the second operand up to this magnitude.
  int64_t most_of_b = 0;
  KernelSection section = {};
  // For a row that multiplies tiles: the instruction that adds the product of two tile registers to
  // a third, as the section's macro tw_tile_multiply takes it. `code` is for accumulators that do
  // not stand in tile registers.
  std::string_view tile_operation = {};

  const TensorSemantics& semantics() const;
  // Whether each lane of the accumulator has its own terms of k in the first operand, too.
  bool takes_each() const;
  // Whether the result is exact for every value of type `elem` in the second operand.
  bool takes_second(ElemType elem) const;
};

const std::vector<Intrinsic>& intrinsics();
// Null when there is none.
const Intrinsic* find_intrinsic(std::string_view name);
// The rows that code for `target` may use, in the order of the table. Of two rows that compute the
// same, the faster one stands first.
std::vector<const Intrinsic*> intrinsics_of(const Target& target);
// The row that computes a CallOp::Dot of these types on `target`; null when there is none.
const Intrinsic* find_dot(const Target& target, Type acc, Type a, Type b);

}  // namespace tilewright
