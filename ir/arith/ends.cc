#include "ir/arith/ends.h"

#include <algorithm>

#include "ir/visitor.h"

namespace tilewright::arith {

void EndFinder::push() {
  rewriter_.push();
  scopes_.push_back(inner_.size());
}

void EndFinder::pop() {
  rewriter_.pop();
  inner_.resize(scopes_.back());
  scopes_.pop_back();
}

void EndFinder::bind(const Expr& var, const Expr& min, const Expr& extent) {
  Linear low = rewriter_.linear(min), high = low + rewriter_.linear(extent) - Linear(1);
  Interval range{known_.bounds(low).min, known_.bounds(high).max};
  std::optional<Linear> lower, upper;
  if (!low.is_const()) lower = low;
  if (!high.is_const()) upper = high;
  known_.bind(var, range, std::move(lower), std::move(upper));
  inner_.push_back({var, std::move(low), std::move(high)});
}

const EndFinder::Bound* EndFinder::bound_of(const Expr& e) const {
  auto it = std::find_if(inner_.rbegin(), inner_.rend(),
                         [&](const Bound& b) { return b.var.same_as(e); });
  return it == inner_.rend() ? nullptr : &*it;
}

bool EndFinder::varies(const Expr& e) const {
  bool found = false;
  for_each_expr(e, [&](const Expr& x) {
    found |= x.as<LoadNode>() != nullptr || (x.as<VarNode>() != nullptr && bound_of(x) != nullptr);
  });
  return found;
}

std::optional<Ends> EndFinder::ends(const Expr& index) {
  try {
    Linear form = rewriter_.linear(index);
    auto low = end(form, Side::Low), high = end(form, Side::High);
    if (!low || !high) return std::nullopt;
    return Ends{std::move(*low), std::move(*high)};
  } catch (const Overflow&) {
    return std::nullopt;
  }
}

std::optional<Linear> EndFinder::end(Linear form, Side side) {
  // Replaces inner variables by their ends, the innermost first, so that terms that the ends share
  // with the rest of the form cancel.
  for (;;) {
    const Bound* last = nullptr;
    int64_t coef = 0;
    for (const Term& t : form.terms) {
      const Bound* bound = bound_of(t.atom);
      if (bound == nullptr || (last != nullptr && bound < last)) continue;
      last = bound;
      coef = t.coef;
    }
    if (last == nullptr) break;
    form.add(last->var, checked_mul(coef, -1));
    form.add((side == Side::High) == (coef > 0) ? last->high : last->low, coef);
  }
  Linear result(form.constant);
  for (const Term& t : form.terms) {
    if (!varies(t.atom)) {
      result.add(t.atom, t.coef);
      continue;
    }
    auto part = end_of_atom(t.atom, t.coef > 0 ? side : opposite(side));
    if (!part) return std::nullopt;
    result.add(*part, t.coef);
  }
  return rewriter_.linear(result.expr());
}

std::optional<Linear> EndFinder::end_of_atom(const Expr& atom, Side side) {
  std::optional<Linear> found;
  if (auto div = as_div(atom)) {
    found = end(Linear::of(div->dividend), side);
    if (found) found = rewriter_.linear(floordiv(found->expr(), Expr(div->divisor)));
  } else if (auto mod = as_mod(atom)) {
    found = end_of_mod(*mod, side);
  } else if (auto* n = atom.as<BinaryNode>()) {
    bool is_product = n->op == BinaryOp::Mul;
    bool is_choice = n->op == BinaryOp::Min || n->op == BinaryOp::Max;
    if (is_product) found = end_of_product(atom, side);
    if (is_choice) found = end_of_choice(n->a, n->b, n->op, side);
  } else if (auto* n = atom.as<SelectNode>()) {
    BinaryOp hull = side == Side::Low ? BinaryOp::Min : BinaryOp::Max;
    found = end_of_choice(n->on_true, n->on_false, hull, side);
  }
  return found ? found : end_by_number(atom, side);
}

std::optional<Linear> EndFinder::end_of_choice(const Expr& a, const Expr& b, BinaryOp op,
                                               Side side) {
  auto x = end(Linear::of(a), side), y = end(Linear::of(b), side);
  if (!x || !y) return std::nullopt;
  return rewriter_.linear(binary(op, x->expr(), y->expr()));
}

// A product of one inner variable with outer ones of known sign.
std::optional<Linear> EndFinder::end_of_product(const Expr& atom, Side side) {
  std::vector<Expr> steady;
  Expr inner;
  for (const Expr& f : factors(atom)) {
    if (!varies(f)) {
      steady.push_back(f);
    } else if (!inner.defined()) {
      inner = f;
    } else {
      return std::nullopt;
    }
  }
  Expr factor = product(std::move(steady));
  Interval sign = known_.bounds(factor);
  if (sign.min < 0 && sign.max > 0) return std::nullopt;
  auto found = end(Linear::of(inner), sign.min >= 0 ? side : opposite(side));
  return found ? std::optional(rewriter_.linear(found->expr() * factor)) : std::nullopt;
}

// While the quotient stays the same, the remainder moves with its dividend.
std::optional<Linear> EndFinder::end_of_mod(const DivMod& mod, Side side) {
  Linear x = Linear::of(mod.dividend);
  auto low = end(x, Side::Low), high = end(x, Side::High);
  if (!low || !high) return std::nullopt;
  Expr divisor(mod.divisor);
  bool one_period = same(rewriter_.linear(floordiv(low->expr(), divisor)),
                         rewriter_.linear(floordiv(high->expr(), divisor)));
  if (!one_period) return std::nullopt;
  return rewriter_.linear(floormod((side == Side::Low ? low : high)->expr(), divisor));
}

std::optional<Linear> EndFinder::end_by_number(const Expr& atom, Side side) {
  Interval range = known_.bounds(atom);
  int64_t value = side == Side::Low ? range.min : range.max;
  if (value == Interval::kNegInf || value == Interval::kPosInf) return std::nullopt;
  return Linear(value);
}

std::optional<Ends> EndFinder::unite(const Ends& a, const Ends& b) {
  Interval low = known_.bounds(a.low - b.low), high = known_.bounds(a.high - b.high);
  bool decided = (low.max <= 0 || low.min >= 0) && (high.max <= 0 || high.min >= 0);
  if (!decided) return std::nullopt;
  return Ends{low.max <= 0 ? a.low : b.low, high.min >= 0 ? a.high : b.high};
}

Linear EndFinder::extent(const Ends& ends) {
  Linear size = rewriter_.linear((ends.high - ends.low).expr()) + Linear(1);
  if (size.is_const()) return size;
  int64_t most = known_.bounds(size).max;
  return most == Interval::kPosInf ? size : Linear(most);
}

}  // namespace tilewright::arith
