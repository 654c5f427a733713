// The bit patterns of element values, as buffers store them.
#pragma once

#include <bit>
#include <cstdint>

#include "ir/type.h"

namespace tilewright {

// The bit pattern of `value` in the lowest `bits_of(elem)` bits. `value` must be representable (see
// round_to). Integers are in two's complement; i1 is 0 for -1 and 1 for +1.
uint64_t to_bits(ElemType elem, double value);
// The value of the pattern in the lowest bits of `bits`. 64-bit integers above 2^53 lose digits.
double from_bits(ElemType elem, uint64_t bits);

// As std::ldexp(1, exponent) and std::ilogb(value) for normal f64 numbers, whose exponents run from -1022
// to 1023; a smaller value has -1023. They are asked for each element of an oracle or an emulated kernel.
inline double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}
inline int exponent_of(double value) {
  return static_cast<int>(std::bit_cast<uint64_t>(value) >> 52 & 0x7ff) - 1023;
}

}  // namespace tilewright
