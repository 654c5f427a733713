// What the lanes of the operands of CallOp::Dot stand for.
#pragma once

#include <optional>

#include "ir/type.h"

namespace tilewright {

// A product of matrices, added to acc[rows][columns]: a[rows][terms], and b[terms / group][columns]
// [group]. With one row all terms are one group: b holds for each lane of acc its terms. With more
// (a tile), the elements of b that share 32 bits are one.
struct DotShape {
  int rows, columns, terms, group;

  // The only one that fits the lanes; nothing when there is none.
  static std::optional<DotShape> of(Type acc, Type a, Type b);
};

}  // namespace tilewright
