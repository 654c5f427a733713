// Loops that stand right inside one another, and how indices grow with them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/arith/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

struct LoopNest {
  std::vector<const ForNode*> loops;  ///< the outermost first
  Stmt body;                          ///< what stands in the innermost
};
LoopNest loop_nest(const ForNode& loop);

/// `e` in an iteration of a loop, counted from 0.
Expr in_iteration(const Expr& e, const ForNode& loop, int64_t turn);
/// The growth of an index per iteration of a loop of constant extent, where the first step and all
/// steps together say the same; nothing for other indices.
std::optional<int64_t> step_along(const Expr& index, const ForNode& loop, Analyzer& known);

/// The index of an element among those of its buffer.
Expr flat_index(const Buffer& buffer, const std::vector<Expr>& indices);

}  // namespace tilewright
