// Which elements of a buffer belong to one iteration of a loop.
#pragma once

#include <optional>

#include "ir/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

// The distance between what two neighbouring iterations of `loop` access at `index`, a flat one,
// where no iteration leaves its own stretch of that many elements; nothing where they may meet.
// `known` has the ranges of the other variables.
std::optional<int64_t> own_stretch(const Expr& index, const ForNode& loop, Analyzer& known);

// Runs loops that write apart from one another, in whole bytes, in parallel: the outermost ones of a
// lowered program that has much to do. Packing functions come without a schedule of their own.
Program parallelize_packing(const Program& lowered);

}  // namespace tilewright
