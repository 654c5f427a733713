// Index vectors: simplified as scalar expressions of a lane number, then rebuilt as vectors.
#include <algorithm>

#include "ir/arith/order.h"
#include "ir/arith/rewriter.h"
#include "ir/visitor.h"

namespace tilewright::arith {
namespace {

// A vector that is no arithmetic of ramps and broadcasts, and the variable that replaces it
// meanwhile.
struct Opaque {
  Expr vector, var;
};

bool is_index_arithmetic(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::Ramp:
    case ExprKind::Broadcast: return true;
    case ExprKind::Binary: return e.as<BinaryNode>()->a.type().elem == ElemType::index;
    case ExprKind::Unary: return e.as<UnaryNode>()->op == UnaryOp::Neg;
    default: return false;
  }
}

// Collects the opaque parts of `e`, each once.
void collect(const Expr& e, std::vector<Expr>& out) {
  if (!is_index_arithmetic(e)) {
    bool known =
        std::any_of(out.begin(), out.end(), [&](const Expr& x) { return identical(x, e); });
    if (!known) out.push_back(e);
  } else if (auto* n = e.as<BinaryNode>()) {
    collect(n->a, out);
    collect(n->b, out);
  } else if (auto* n = e.as<UnaryNode>()) {
    collect(n->a, out);
  }
}

Expr to_scalar(const Expr& e, const Expr& lane, const std::vector<Opaque>& opaque) {
  if (!is_index_arithmetic(e)) {
    return std::find_if(opaque.begin(), opaque.end(),
                        [&](const Opaque& o) { return identical(o.vector, e); })
        ->var;
  }
  if (auto* n = e.as<RampNode>()) return n->base + n->stride * lane;
  if (auto* n = e.as<BroadcastNode>()) return n->value;
  if (auto* n = e.as<UnaryNode>()) return unary(n->op, to_scalar(n->a, lane, opaque));
  auto* n = e.as<BinaryNode>();
  return binary(n->op, to_scalar(n->a, lane, opaque), to_scalar(n->b, lane, opaque));
}

class Spreader {
 public:
  Spreader(const Expr& lane, int lanes, const std::vector<Opaque>& opaque)
      : lane_(lane), lanes_(lanes), opaque_(opaque) {}

  Expr spread(const Expr& e) const {
    if (!varies(e)) return broadcast(e, lanes_);
    if (e.type().elem == ElemType::index) return spread_sum(Linear::of(e));
    return spread_node(e);
  }

 private:
  bool varies(const Expr& e) const {
    bool found = false;
    for_each_expr(e, [&](const Expr& x) {
      if (x.as<VarNode>() == nullptr) return;
      found |= x.same_as(lane_) || std::any_of(opaque_.begin(), opaque_.end(),
                                               [&](const Opaque& o) { return x.same_as(o.var); });
    });
    return found;
  }

  Expr spread_sum(const Linear& form) const {
    Linear base(form.constant), stride, others;
    for (const Term& t : form.terms) {
      Expr per_lane = without_factors(t.atom, {lane_});
      if (!varies(t.atom)) {
        base.add(t.atom, t.coef);
      } else if (per_lane.defined() && !varies(per_lane)) {
        stride.add_parts(per_lane, t.coef);
      } else {
        others.add(t.atom, t.coef);
      }
    }
    Expr sum;
    others.sort();
    for (const Term& t : others.terms) {
      Expr part = spread_node(t.atom);
      if (t.coef != 1) part = part * broadcast(Expr(t.coef), lanes_);
      sum = sum.defined() ? sum + part : part;
    }
    Expr steady;
    if (!stride.is_zero()) {
      steady = ramp(base.expr(), stride.expr(), lanes_);
    } else if (!sum.defined() || !base.is_zero()) {
      steady = broadcast(base.expr(), lanes_);
    }
    if (!sum.defined()) return steady;
    return steady.defined() ? sum + steady : sum;
  }

  Expr spread_node(const Expr& e) const {
    for (const Opaque& o : opaque_) {
      if (e.same_as(o.var)) return o.vector;
    }
    if (e.same_as(lane_)) return ramp(Expr(0), Expr(1), lanes_);
    if (auto* n = e.as<BinaryNode>()) return binary(n->op, spread(n->a), spread(n->b));
    if (auto* n = e.as<UnaryNode>()) return unary(n->op, spread(n->a));
    return broadcast(e, lanes_);
  }

  const Expr& lane_;
  const int lanes_;
  const std::vector<Opaque>& opaque_;
};

}  // namespace

Expr Rewriter::lane_of(int lanes) {
  Expr& lane = lanes_[lanes];
  if (!lane.defined()) {
    lane = Var("lane");
    known_.define(lane, {0, lanes - 1});
  }
  return lane;
}

// The same vector with its opaque parts in canonical form.
Expr Rewriter::rewrite_opaque(const Expr& e) {
  if (is_index_arithmetic(e)) {
    if (auto* n = e.as<UnaryNode>()) return unary(n->op, rewrite_opaque(n->a));
    auto* n = e.as<BinaryNode>();
    return n != nullptr ? binary(n->op, rewrite_opaque(n->a), rewrite_opaque(n->b)) : e;
  }
  if (auto* n = e.as<CastNode>()) return rewrite_cast(*n, e);
  if (auto* n = e.as<LoadNode>()) return rewrite_load(*n, e);
  if (auto* n = e.as<CallNode>()) return rewrite_call(*n, e);
  if (auto* n = e.as<UnaryNode>()) return rewrite_unary(*n, e);
  if (auto* n = e.as<SelectNode>()) {
    Choice c = rewrite_choice(n->cond, n->on_true, n->on_false);
    return c.cond.defined() ? select(c.cond, c.on_true, c.on_false) : c.on_true;
  }
  return e;
}

Expr Rewriter::rewrite_vector(const Expr& e) {
  Expr opened = rewrite_opaque(e);
  if (!is_index_arithmetic(opened)) return opened;
  std::vector<Expr> found;
  collect(opened, found);
  std::vector<Opaque> opaque;
  for (const Expr& x : found) opaque.push_back({x, Expr()});
  // Names the variables in the order of the vectors they replace, so that a second pass gives the
  // same names.
  std::stable_sort(opaque.begin(), opaque.end(),
                   [](const Opaque& a, const Opaque& b) { return order(a.vector, b.vector) < 0; });
  for (size_t i = 0; i < opaque.size(); ++i) opaque[i].var = Var("vector" + std::to_string(i));
  auto* n = opened.as<BinaryNode>();
  int lanes = n != nullptr ? n->a.type().lanes : opened.type().lanes;
  Expr lane = lane_of(lanes);
  Expr scalar = rewrite(to_scalar(opened, lane, opaque));
  return Spreader(lane, lanes, opaque).spread(scalar);
}

}  // namespace tilewright::arith
