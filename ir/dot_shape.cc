#include "ir/dot_shape.h"

#include <algorithm>
#include <cstdint>

namespace tilewright {

// rows * columns, rows * terms and terms * columns are given.
std::optional<DotShape> DotShape::of(Type acc, Type a, Type b) {
  const int64_t outer = int64_t{acc.lanes} * a.lanes;
  int rows = 1;
  while (int64_t{b.lanes} * rows * rows < outer) ++rows;
  bool whole =
      int64_t{b.lanes} * rows * rows == outer && acc.lanes % rows == 0 && a.lanes % rows == 0;
  if (!whole) return std::nullopt;
  DotShape shape{rows, acc.lanes / rows, a.lanes / rows, a.lanes / rows};
  if (rows > 1) shape.group = std::min(shape.terms, std::max(1, 32 / bits_of(b.elem)));
  if (shape.terms % shape.group != 0) return std::nullopt;
  return shape;
}

}  // namespace tilewright
