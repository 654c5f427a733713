// Operands on which a mutant is compared with its original kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/check/reference.h"
#include "runtime/tensor/operands.h"

namespace tilewright::mutation {

enum class Inputs : uint8_t {
  Uniform,
  Integers,  // whose sums of products are exact in any order
  Spikes,    // a few elements of very different magnitudes among zeros
  Negative,
  Zeros,  // of both signs
  Large,
  Vast,      // far below zero, so that only minus infinity is a lower bound
  Infinite,  // infinities among others
  Special,   // infinities and NaN among others
  Ends,      // the ends of the ranges and types
};
inline constexpr Inputs kAllInputs[] = {
    Inputs::Uniform, Inputs::Integers, Inputs::Spikes,   Inputs::Negative, Inputs::Zeros,
    Inputs::Large,   Inputs::Vast,     Inputs::Infinite, Inputs::Special,  Inputs::Ends};

const char* name_of(Inputs inputs);

// Whether all right kernels of the workload agree on such inputs. Infinities and NaN are kept where
// stages only add, subtract and multiply; a maximum or minimum of elements keeps infinities, and may
// drop a NaN. Elsewhere kernels may leave out products with zeros (padding, sparse weights, masks).
bool are_defined(Inputs inputs, const Workload& workload);

int64_t count_of(const OperandInfo& info);
// Writes the operand's elements to the packed array at `data`. The values meet the workload's
// requirements (row numbers in range, patterns of zeros).
void fill(const OperandInfo& info, const std::vector<OperandInfo>& all, Inputs inputs,
          uint64_t seed, void* data);

// Whether this is the value, up to what the order of summation may change.
bool allowed(ElemType elem, double got, const Oracle::Value& want);

}  // namespace tilewright::mutation
