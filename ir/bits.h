// The bit patterns of element values, as buffers store them.
#pragma once

#include <cstdint>

#include "ir/type.h"

namespace tilewright {

// The bit pattern of `value` in the lowest `bits_of(elem)` bits. `value` must be representable (see
// round_to). Integers are in two's complement; i1 is 0 for -1 and 1 for +1.
uint64_t to_bits(ElemType elem, double value);
// The value of the pattern in the lowest bits of `bits`. 64-bit integers above 2^53 lose digits.
double from_bits(ElemType elem, uint64_t bits);

}  // namespace tilewright
