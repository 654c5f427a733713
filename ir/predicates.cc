#include "ir/predicates.h"

#include "ir/visitor.h"

namespace tilewright {

Expr conjunction(const Expr& a, const Expr& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  return a && b;
}

std::vector<Expr> conjuncts(const Expr& predicate) {
  if (!predicate.defined()) return {};
  auto* n = predicate.as<BinaryNode>();
  if (!n || n->op != BinaryOp::And) return {predicate};
  std::vector<Expr> list = conjuncts(n->a), right = conjuncts(n->b);
  list.insert(list.end(), right.begin(), right.end());
  return list;
}

Expr as_less(const Expr& condition) {
  auto* n = condition.as<BinaryNode>();
  if (n && n->op == BinaryOp::GT) return n->b < n->a;
  if (n && n->op == BinaryOp::GE) return n->b <= n->a;
  return condition;
}

bool reads_memory(const Expr& e) {
  bool found = false;
  for_each_expr(e, [&](const Expr& x) { found |= x.as<LoadNode>() != nullptr; });
  return found;
}

Expr strip_casts(Expr e) {
  while (auto* n = e.as<CastNode>()) e = n->value;
  return e;
}

const LoadNode* load_under_casts(const Expr& e) { return strip_casts(e).as<LoadNode>(); }

bool is_zero(const Expr& e) {
  if (auto* b = e.as<BroadcastNode>()) return is_zero(b->value);
  if (auto* f = e.as<FloatImmNode>()) return f->value == 0;
  return is_int(e, 0);
}

namespace {

// Comparisons of "base + lane" or "base - lane" with a bound, on whatever side.
std::optional<LaneRange> range_of_comparison(const BinaryNode& n, int lanes) {
  const bool left = n.a.as<RampNode>() != nullptr;
  auto* r = (left ? n.a : n.b).as<RampNode>();
  auto* bound = (left ? n.b : n.a).as<BroadcastNode>();
  const bool up = r && is_int(r->stride, 1);
  if (!r || !bound || !(up || is_int(r->stride, -1))) return std::nullopt;
  const Expr at = up ? bound->value - r->base : r->base - bound->value;
  const bool with_equal = n.op == BinaryOp::LE;
  if (left == up) return LaneRange{Expr(0), with_equal ? at + 1 : at};
  return LaneRange{with_equal ? at : at + 1, Expr(lanes)};
}

}  // namespace

std::optional<LaneRange> lane_range(const Expr& mask) {
  if (!mask.defined()) return std::nullopt;
  const int lanes = mask.type().lanes;
  if (auto* same = mask.as<BroadcastNode>()) {
    return LaneRange{Expr(0), select(same->value, Expr(lanes), Expr(0))};
  }
  const Expr less = as_less(mask);
  auto* n = less.as<BinaryNode>();
  if (n && n->op == BinaryOp::And) {
    const auto a = lane_range(n->a), b = lane_range(n->b);
    if (!a || !b) return std::nullopt;
    auto *all_a = n->a.as<BroadcastNode>(), *all_b = n->b.as<BroadcastNode>();
    if (all_a) return LaneRange{b->first, select(all_a->value, b->end, Expr(0))};
    if (all_b) return LaneRange{a->first, select(all_b->value, a->end, Expr(0))};
    const auto inner = [](const Expr& x, const Expr& y, int64_t open, auto join) {
      return is_int(x, open) ? y : is_int(y, open) ? x : join(x, y);
    };
    return LaneRange{inner(a->first, b->first, 0, [](Expr x, Expr y) { return max(x, y); }),
                     inner(a->end, b->end, lanes, [](Expr x, Expr y) { return min(x, y); })};
  }
  if (!n || (n->op != BinaryOp::LT && n->op != BinaryOp::LE)) return std::nullopt;
  return range_of_comparison(*n, lanes);
}

Expr leading_lanes(const Expr& mask) {
  const auto range = lane_range(mask);
  return range && is_int(range->first, 0) ? range->end : Expr();
}

}  // namespace tilewright
