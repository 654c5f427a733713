// Questions about conditions, masks and the factors that they decide on.
#pragma once

#include <vector>

#include "ir/expr.h"

namespace tilewright {

// The conjunction, where either side may be undefined; the list of the sides of nested ands.
Expr conjunction(const Expr& a, const Expr& b);
std::vector<Expr> conjuncts(const Expr& predicate);

// Whether some part of `e` is loaded from a buffer, so that stores may change its value.
bool reads_memory(const Expr& e);
// A zero literal of any type, in all lanes.
bool is_zero(const Expr& e);
// How many leading lanes a mask "base + lane < bound" lets through (not cut to the number of
// lanes); undefined for other masks.
Expr leading_lanes(const Expr& mask);

}  // namespace tilewright
