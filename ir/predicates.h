// Queries on conditions and masks.
#pragma once

#include <optional>
#include <vector>

#include "ir/expr.h"

namespace tilewright {

// conjunction(): either side may be undefined. conjuncts(): the operands of nested ands.
Expr conjunction(const Expr& a, const Expr& b);
std::vector<Expr> conjuncts(const Expr& predicate);

// `b < a` and `b <= a` for `a > b` and `a >= b`; other conditions as they are.
Expr as_less(const Expr& condition);

// True when some part of `e` is loaded from a buffer, so that stores may change its value.
bool reads_memory(const Expr& e);
// The value before all casts around it.
Expr strip_casts(Expr e);
// The load under any number of casts; null if there is none.
const LoadNode* load_under_casts(const Expr& e);
// A zero literal of any type, in all lanes.
bool is_zero(const Expr& e);
// The lanes [first, end) for which a mask is true, not clamped to the number of lanes. The mask compares
// "base + lane" or "base - lane" with one bound or two, with a condition for all lanes beside it or alone. Nothing for others.
struct LaneRange {
  Expr first, end;
};
std::optional<LaneRange> lane_range(const Expr& mask);
// The number of leading lanes for which a mask "base + lane < bound" is true, not clamped to the
// number of lanes. The mask may have a condition for all lanes beside it, or be one. Undefined for others.
Expr leading_lanes(const Expr& mask);

}  // namespace tilewright
