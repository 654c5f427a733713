// The elements of a buffer that belong to one iteration of a loop.
#pragma once

#include <optional>

#include "ir/arith/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

// The distance between the elements that two consecutive iterations of `loop` access at `index`, a
// flat one. Each iteration must stay within its own range of that many elements; nothing where
// iterations may meet. `known` has the ranges of the other variables.
std::optional<int64_t> own_stretch(const Expr& index, const ForNode& loop, Analyzer& known);

// Parallelizes loops whose iterations write separate whole bytes: the outermost ones of a lowered
// program that has much to do. Packing functions come without a schedule of their own.
Program parallelize_packing(const Program& lowered);

}  // namespace tilewright
