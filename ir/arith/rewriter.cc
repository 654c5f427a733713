#include "ir/arith/rewriter.h"

#include "ir/arith/fold.h"
#include "ir/arith/order.h"
#include "ir/buffer.h"
#include "ir/call_table.h"

namespace tilewright::arith {
namespace {

// True for index values in lanes and for comparisons of them.
bool is_index_vector(const Expr& e) {
  if (e.type().lanes == 1) return false;
  if (e.type().elem == ElemType::index) return true;
  auto* n = e.as<BinaryNode>();
  return n != nullptr && is_comparison(n->op) && n->a.type().elem == ElemType::index;
}

// A scope of facts; closed also when a rewrite is abandoned by an exception.
class Scope {
 public:
  explicit Scope(Rewriter& rewriter) : rewriter_(rewriter) { rewriter_.push(); }
  ~Scope() { rewriter_.pop(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Rewriter& rewriter_;
};

}  // namespace

bool is_true(const Expr& e) {
  Expr lane = constant_lane(e);
  return lane.defined() && is_int(lane, 1) && lane.type().elem == ElemType::boolean;
}

bool is_false(const Expr& e) {
  Expr lane = constant_lane(e);
  return lane.defined() && is_int(lane, 0) && lane.type().elem == ElemType::boolean;
}

void Rewriter::refresh() {
  if (version_ == known_.version()) return;
  version_ = known_.version();
  memo_.clear();
  atoms_.clear();
}

void Rewriter::push() {
  refresh();
  known_.push();
  memo_.push();
  atoms_.push();
  version_ = known_.version();
}

void Rewriter::pop() {
  known_.pop();
  memo_.pop();
  atoms_.pop();
  version_ = known_.version();
}

void Rewriter::assume(const Expr& condition) {
  Expr c = rewrite(condition);
  auto* n = c.as<BinaryNode>();
  if (n != nullptr && n->op == BinaryOp::And) {
    assume(n->a);
    return assume(n->b);
  }
  if (c.type().lanes > 1 || constant_lane(c).defined()) return;
  if (auto form = as_below_zero(c)) return known_.learn_not_positive(*form + Linear(1));
  if (auto form = as_zero(c)) {
    known_.learn_not_positive(*form);
    return known_.learn_not_positive(-*form);
  }
  if (auto* negated = c.as<UnaryNode>(); negated != nullptr && negated->op == UnaryOp::Not) {
    known_.learn_fact(negated->a, false);
  }
  known_.learn_fact(c, true);
}

Expr Rewriter::rewrite(const Expr& e) {
  if (!e.defined() || e.as<IntImmNode>() != nullptr || e.as<FloatImmNode>() != nullptr) return e;
  if (e.as<VarNode>() != nullptr) return rewrite_var(e);
  refresh();
  if (const Expr* known = memo_.find(e)) return *known;
  Expr result = rewrite_node(e);
  if (identical(result, e)) result = e;
  memo_.put(e, result);
  return result;
}

Expr Rewriter::rewrite_node(const Expr& e) {
  if (e.type() == Type(ElemType::index)) return linear(e).expr();
  if (is_index_vector(e)) return rewrite_vector(e);
  switch (e.kind()) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm: return e;
    case ExprKind::Var: return rewrite_var(e);
    case ExprKind::Cast: return rewrite_cast(*e.as<CastNode>(), e);
    case ExprKind::Unary: return rewrite_unary(*e.as<UnaryNode>(), e);
    case ExprKind::Binary: return rewrite_binary(*e.as<BinaryNode>(), e);
    case ExprKind::Select: {
      auto* n = e.as<SelectNode>();
      Choice c = rewrite_choice(n->cond, n->on_true, n->on_false);
      return c.cond.defined() ? select(c.cond, c.on_true, c.on_false) : c.on_true;
    }
    case ExprKind::Load: return rewrite_load(*e.as<LoadNode>(), e);
    case ExprKind::Ramp: {
      auto* n = e.as<RampNode>();
      Expr base = rewrite(n->base), stride = rewrite(n->stride);
      if (is_int(stride, 0)) return broadcast(base, n->type.lanes);
      return ramp(base, stride, n->type.lanes);
    }
    case ExprKind::Broadcast: {
      auto* n = e.as<BroadcastNode>();
      return broadcast(rewrite(n->value), n->type.lanes);
    }
    case ExprKind::Call: return rewrite_call(*e.as<CallNode>(), e);
  }
  return e;
}

Expr Rewriter::rewrite_var(const Expr& e) {
  if (e.type().lanes > 1) return e;
  if (e.type().elem == ElemType::boolean) {
    Expr known = known_or(e);
    if (!known.same_as(e)) return known;
  }
  if (is_float(e.type().elem)) return e;
  auto value = known_.value_of(e);
  return value ? make_int(e.type(), *value) : e;
}

Expr Rewriter::rewrite_cast(const CastNode& n, const Expr& e) {
  Expr value = rewrite(n.value);
  Expr folded = fold_cast(n.type, value, known_);
  if (folded.defined()) return folded;
  return value.same_as(n.value) ? e : cast(n.type, value);
}

Expr Rewriter::rewrite_unary(const UnaryNode& n, const Expr& e) {
  Expr a = rewrite(n.a);
  if (n.op == UnaryOp::Not) return negate(a);
  if (n.op == UnaryOp::Abs && n.type == Type(ElemType::index)) {
    Interval range = known_.bounds(a);
    if (range.min >= 0) return a;
    if (range.max <= 0) return (-Linear::of(a)).expr();
  }
  Expr folded = fold_unary(n.op, a);
  if (folded.defined()) return folded;
  return a.same_as(n.a) ? e : unary(n.op, a);
}

Expr Rewriter::rewrite_binary(const BinaryNode& n, const Expr& e) {
  bool is_index = n.a.type() == Type(ElemType::index);
  if (is_comparison(n.op) && is_index) return compare(n);
  Expr a = rewrite(n.a), b = rewrite(n.b);
  if (n.op == BinaryOp::And || n.op == BinaryOp::Or) return join(n.op, a, b);
  Expr folded = fold_binary(n.op, a, b);
  if (folded.defined()) return folded;
  Expr result = a.same_as(n.a) && b.same_as(n.b) ? e : binary(n.op, a, b);
  return is_comparison(n.op) ? known_or(result) : result;
}

Expr Rewriter::rewrite_load(const LoadNode& n, const Expr& e) {
  bool changed = false;
  std::vector<Expr> indices;
  for (const Expr& i : n.indices) {
    indices.push_back(rewrite(i));
    changed |= !indices.back().same_as(i);
  }
  Expr predicate = rewrite(n.predicate);
  // A predicate gives the load its lanes where no index does.
  bool lanes_stay = load(n.buffer, indices).type() == n.type;
  if (predicate.defined() && is_true(predicate) && lanes_stay) predicate = Expr();
  if (predicate.defined() && is_false(predicate) && n.type.elem != ElemType::e8m0) {
    return make_const(n.type, 0);
  }
  changed |= !predicate.same_as(n.predicate);
  return changed ? load(n.buffer, std::move(indices), predicate) : e;
}

Expr Rewriter::rewrite_call(const CallNode& n, const Expr& e) {
  if (n.op == CallOp::IfThenElse) {
    Choice c = rewrite_choice(n.args[0], n.args[1], n.args[2]);
    return c.cond.defined() ? call(n.type, n.op, {c.cond, c.on_true, c.on_false}) : c.on_true;
  }
  bool changed = false;
  std::vector<Expr> args;
  for (size_t i = 0; i < n.args.size(); ++i) {
    args.push_back(rewrite(n.args[i]));
    // An element that is only named stays a load, even where its value is known.
    const bool is_named = access_of(n.op, i) != CallAccess::Value;
    if (is_named && args[i].as<LoadNode>() == nullptr) return e;
    changed |= !args.back().same_as(n.args[i]);
  }
  return changed ? call(n.type, n.op, std::move(args)) : e;
}

Rewriter::Choice Rewriter::rewrite_choice(const Expr& cond, const Expr& on_true,
                                          const Expr& on_false) {
  Expr c = rewrite(cond);
  if (is_true(c)) return {Expr(), rewrite(on_true), Expr()};
  if (is_false(c)) return {Expr(), rewrite(on_false), Expr()};
  Expr t = under(c, on_true), f = under(negate(c), on_false);
  if (identical(t, f)) return {Expr(), t, Expr()};
  return {c, t, f};
}

Expr Rewriter::under(const Expr& condition, const Expr& e) {
  if (condition.type().lanes > 1) return rewrite(e);
  Scope scope(*this);
  assume(condition);
  return rewrite(e);
}

}  // namespace tilewright::arith
