// Values for trials, and how far two results are apart.
#pragma once

#include <cstdint>
#include <vector>

#include "provider/runtime.h"

namespace tilewright::provider {

// Floats in [-1, 1), the same for the same seed; all other types are 1.
void fill(std::vector<char>& data, int32_t elem, uint64_t seed);

// The largest difference between elements of `got` and `wanted`, as a share of the largest magnitude of that
// output in `wanted`, which counts as 0.001 at least. Infinite where types, shapes or places of NaNs and
// infinities differ. For integers, codes of a byte that differ by 1 are equal, and the share of other elements
// that differ counts.
double difference(const Runtime& runtime, const std::vector<OwnedValue>& got,
                  const std::vector<OwnedValue>& wanted);

}  // namespace tilewright::provider
