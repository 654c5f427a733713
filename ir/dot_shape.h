// What the lanes of the operands of CallOp::Dot stand for.
#pragma once

#include <optional>

#include "ir/type.h"

namespace tilewright {

// A product of matrices, added to acc[rows][columns]: a[rows][terms], and b[terms / group][columns]
// [group]. With one row all terms are one group: b holds for each lane of acc its terms. With more
// (a tile), the elements of b that share 32 bits are one. Or, with `each`, every lane of acc is a
// row of its own, with its own terms in both operands: acc[rows], a[rows][terms], b[rows][terms].
struct DotShape {
  int rows, columns, terms, group;
  bool each = false;

  // The only one that fits the lanes; nothing when there is none. Operands of equal length are
  // those of each lane where they fit a vector of 512 bits, and tiles where they don't.
  static std::optional<DotShape> of(Type acc, Type a, Type b);
};

}  // namespace tilewright
