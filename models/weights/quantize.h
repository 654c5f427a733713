// Floats as codes of a few bits, in groups that share a scale and a zero point (docs/formats.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/type.h"

namespace tilewright::weights {

// An element is worth (code - zero) * scale of its group.
struct RowCodes {
  std::vector<int16_t> codes;  // as many as elements; of floats and nf4, their bits
  std::vector<float> scales;   // [rows, groups]
  std::vector<uint8_t> zeros;  // [rows, groups]; empty for types that have none
};

// Whether `quantize` makes codes of the type: integers of 2 to 8 bits, and floats of 8 and fewer.
bool can_quantize(ElemType type);
// Whether its codes have zero points: unsigned integers use the range from the least to the largest element, all
// other types lie around 0.
bool has_zeros(ElemType type);

// Rounds rows of k elements, in groups of `group` that stand side by side; the last one may have fewer. The same
// numbers as the function `quantize` of the Python package: scales are rounded up, so that no element is cut off.
// An element is off by at most half a scale; of floats, by half the distance of neighbouring codes times the scale.
// Requires finite elements and whole rows.
RowCodes quantize(std::span<const float> rows, int64_t k, ElemType type, int64_t group);

}  // namespace tilewright::weights
