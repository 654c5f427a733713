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

Expr leading_lanes(const Expr& mask) {
  if (auto* same = mask.as<BroadcastNode>()) {
    return select(same->value, Expr(mask.type().lanes), Expr(0));
  }
  auto* n = mask.as<BinaryNode>();
  if (n && n->op == BinaryOp::And) {
    auto *a = n->a.as<BroadcastNode>(), *b = n->b.as<BroadcastNode>();
    if (!a == !b) return {};
    const Expr count = leading_lanes(a ? n->b : n->a);
    return count.defined() ? select(a ? a->value : b->value, count, Expr(0)) : Expr();
  }
  if (!n || (n->op != BinaryOp::LT && n->op != BinaryOp::LE)) return {};
  auto* r = n->a.as<RampNode>();
  auto* b = n->b.as<BroadcastNode>();
  if (!r || !b || !is_int(r->stride, 1)) return {};
  return b->value - r->base + (n->op == BinaryOp::LE ? Expr(1) : Expr(0));
}

}  // namespace tilewright
