// What primitives that pad blocks share.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/stmt.h"
#include "schedule/tree.h"

namespace tilewright {

// The iterators that get a larger extent, by variable.
using PaddedExtents = std::map<const ExprNode*, Expr>;

// Each iterator of the block `s` rounded up to its multiple. Refuses numbers below 1, and another
// number of them than the block has iterators.
PaddedExtents padded_extents(const Tree& tree, const Stmt& s,
                             const std::vector<int64_t>& multiples);

// `block` under its `loops` (require_lowered()), outermost first, each over the padded extent.
Stmt under_padded_loops(const BlockNode& old, const std::vector<Stmt>& loops,
                        const PaddedExtents& padded, Stmt block);

}  // namespace tilewright
