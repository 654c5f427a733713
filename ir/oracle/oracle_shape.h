// Row-major shapes of the oracle's stages.
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

namespace tilewright::oracle {

inline int64_t product(const std::vector<int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

// The multiples of each axis in the flat index.
inline std::vector<int64_t> strides_of(const std::vector<int64_t>& extents) {
  std::vector<int64_t> strides(extents.size(), 1);
  for (size_t d = extents.size(); d-- > 1;) strides[d - 1] = strides[d] * extents[d];
  return strides;
}

// Writes the subscripts of a flat index. Axis `skipped` is left out of the index and keeps its
// subscript; -1: none is. Returns what is left of the index, 0 inside of the shape.
inline int64_t unflatten(int64_t flat, const std::vector<int64_t>& extents, int64_t* subscripts,
                         int skipped = -1) {
  for (int d = static_cast<int>(extents.size()); d-- > 0;) {
    if (d == skipped) continue;
    subscripts[d] = flat % extents[static_cast<size_t>(d)];
    flat /= extents[static_cast<size_t>(d)];
  }
  return flat;
}

// An axis of an array: the other axes' elements in order are its rows.
struct LaneAxis {
  int64_t extent = 1, stride = 1;

  LaneAxis(const std::vector<int64_t>& extents, int axis)
      : extent(extents[static_cast<size_t>(axis)]),
        stride(strides_of(extents)[static_cast<size_t>(axis)]) {}
  // The flat index of a row's first element.
  int64_t begin(int64_t row) const { return row / stride * extent * stride + row % stride; }
};

}  // namespace tilewright::oracle
