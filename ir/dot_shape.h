// The matrix layout of the operands of CallOp::Dot: which row, column and k each lane holds.
#pragma once

#include <optional>

#include "ir/expr.h"

namespace tilewright {

// A matrix product that is added to the accumulators acc[rows][columns]. `terms` is the length of
// k: the operands are a[rows][terms] and b[terms / group][columns][group].
//
// With one row, all terms are one group: b holds the terms of each accumulator lane side by side.
// With more rows (a tile), the elements of b that share 32 bits are one group.
//
// With `each`, every accumulator lane is a row of its own, with its own terms in both operands:
// acc[rows], a[rows][terms], b[rows][terms].
struct DotShape {
  int rows, columns, terms, group;
  bool each = false;

  // The only shape that fits the lanes, or nothing. Operands of equal length are read as `each`
  // where they fit a vector of 512 bits, and as tiles where they don't.
  static std::optional<DotShape> of(Type acc, Type a, Type b);

  bool is_tile() const { return rows > 1 && !each; }
};

// The call if `e` adds a product of tiles to accumulators (AMX), else null.
const CallNode* as_tile_product(const Expr& e);

}  // namespace tilewright
