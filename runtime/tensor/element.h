// Elements of every type as f64 and back, in packed storage (sub-byte types: lowest bits first).
#pragma once

#include <cstdint>
#include <span>

#include "ir/oracle/evaluate.h"  // unit_roundoff
#include "ir/type.h"

namespace tilewright {

// The element at `index` of the packed array at `base`. 64-bit integers round to f64.
double load_element(ElemType elem, const void* base, int64_t index);
// Elements from `first` on.
void load_elements(ElemType elem, const void* base, int64_t first, std::span<double> out);
// Stores round_to(elem, value). Neighbours in the same byte are kept (not atomic).
void store_element(ElemType elem, void* base, int64_t index, double value);

// The bits of round_to(elem, value) and back: what load_element and store_element read and write.
uint64_t encode_element(ElemType elem, double value);
double decode_element(ElemType elem, uint64_t bits);

// Distance between neighbouring values of `elem` at `value` (1 for integers).
double ulp_at(ElemType elem, double value);
// The largest finite value.
double max_finite(ElemType elem);

}  // namespace tilewright
