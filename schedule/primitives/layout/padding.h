// Shared by primitives that pad blocks.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/stmt.h"
#include "schedule/tree.h"

namespace tilewright {

// The new extent per padded iterator, keyed by the iterator's variable.
using PaddedExtents = std::map<const ExprNode*, Expr>;

// The extents of the iterators of block `s`, rounded up to multiples. Refuses multiples below 1,
// and a number of multiples other than that of the block's iterators.
PaddedExtents padded_extents(const Tree& tree, const Stmt& s,
                             const std::vector<int64_t>& multiples);

// `block` under its `loops` (require_lowered()), outermost first, each over the padded extent.
Stmt under_padded_loops(const BlockNode& old, const std::vector<Stmt>& loops,
                        const PaddedExtents& padded, Stmt block);

}  // namespace tilewright
