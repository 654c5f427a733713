// Comparisons of index expressions, and their conjunctions and disjunctions.
#include <algorithm>
#include <cstdlib>

#include "ir/arith/order.h"
#include "ir/arith/rewriter.h"

namespace tilewright::arith {
namespace {

const BinaryNode* as_index_comparison(const Expr& e) {
  auto* n = e.as<BinaryNode>();
  return n != nullptr && n->a.type() == Type(ElemType::index) && n->type.elem == ElemType::boolean
             ? n
             : nullptr;
}

// form OP 0, balanced so that both sides have positive terms: the form's positive terms stay on the
// left.
Expr balanced(BinaryOp op, const Linear& form) {
  Linear left, right;
  for (const Term& t : form.terms) {
    t.coef > 0 ? left.add(t.atom, t.coef) : right.add(t.atom, checked_mul(t.coef, -1));
  }
  bool on_left = form.constant > 0 && !right.terms.empty();
  if (on_left) left.add(form.constant);
  if (!on_left) right.add(checked_mul(form.constant, -1));
  return binary(op, left.expr(), right.expr());
}

std::vector<int64_t> magnitudes(const Linear& form) {
  std::vector<int64_t> result;
  for (const Term& t : form.terms) {
    if (std::abs(t.coef) > 1) result.push_back(std::abs(t.coef));
  }
  std::sort(result.begin(), result.end(), std::greater<>());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

}  // namespace

void flatten(BinaryOp op, const Expr& e, std::vector<Expr>& out) {
  auto* n = e.as<BinaryNode>();
  if (n == nullptr || n->op != op) return out.push_back(e);
  flatten(op, n->a, out);
  flatten(op, n->b, out);
}

std::optional<Linear> as_below_zero(const Expr& condition) {
  auto* n = as_index_comparison(condition);
  if (n == nullptr) return std::nullopt;
  Linear difference = Linear::of(n->a) - Linear::of(n->b);
  if (n->op == BinaryOp::LT) return difference;
  // a >= b is b - a - 1 < 0
  if (n->op == BinaryOp::GE) return -difference - Linear(1);
  return std::nullopt;
}

std::optional<Linear> as_zero(const Expr& condition) {
  auto* n = as_index_comparison(condition);
  if (n == nullptr || n->op != BinaryOp::EQ) return std::nullopt;
  return Linear::of(n->a) - Linear::of(n->b);
}

Expr Rewriter::compare(const BinaryNode& n) {
  Linear difference;
  accumulate(n.a, 1, difference);
  accumulate(n.b, -1, difference);
  merge_pairs(difference);
  return compare(n.op, std::move(difference));
}

Expr Rewriter::compare(BinaryOp op, Linear difference) {
  switch (op) {
    case BinaryOp::EQ: return zero(difference, true);
    case BinaryOp::NE: return zero(difference, false);
    case BinaryOp::LT: return below_zero(std::move(difference));
    case BinaryOp::LE: return below_zero(difference - Linear(1));
    case BinaryOp::GT: return below_zero(-difference);
    default: return below_zero(-difference - Linear(1));
  }
}

Expr Rewriter::below_zero(Linear form) {
  if (form.is_const()) return make_bool(form.constant < 0);
  Interval range = known_.bounds(form);
  if (range.max < 0) return make_bool(true);
  if (range.min >= 0) return make_bool(false);
  form = tighten_below_zero(std::move(form));
  if (form.is_const()) return make_bool(form.constant < 0);
  range = known_.bounds(form);
  if (range.max < 0) return make_bool(true);
  if (range.min >= 0) return make_bool(false);
  bool any_positive =
      std::any_of(form.terms.begin(), form.terms.end(), [](const Term& t) { return t.coef > 0; });
  if (any_positive) return known_or(balanced(BinaryOp::LT, form));
  // -x + c < 0 reads x >= c + 1
  Linear negated = -form;
  int64_t least = checked_add(form.constant, 1);
  return known_or(binary(BinaryOp::GE, (negated - Linear(negated.constant)).expr(), Expr(least)));
}

// The same condition with fewer or smaller terms.
Linear Rewriter::tighten_below_zero(Linear form) {
  constexpr int kMaxRounds = 16;
  for (int round = 0; round < kMaxRounds; ++round) {
    // g*x + s < 0 with 0 <= s < g means x < 0
    Shortened shorter = shorten(form, magnitudes(form));
    if (shorter.divisor > 1) {
      form = std::move(shorter.wide);
      continue;
    }
    if (form.terms.size() != 1) break;
    auto div = as_div(form.terms[0].atom);
    if (!div) break;
    // After shorten(), the only coefficient is 1 or -1.
    Linear x = Linear::of(div->dividend);
    if (form.terms[0].coef > 0) {  // floordiv(x, c) + k < 0 means x + k*c < 0
      form = x + Linear(checked_mul(form.constant, div->divisor));
    } else {  // k - floordiv(x, c) < 0 means (k + 1)*c - 1 - x < 0
      form = Linear(checked_mul(checked_add(form.constant, 1), div->divisor) - 1) - x;
    }
    merge_pairs(form);
  }
  return form;
}

Expr Rewriter::zero(const Linear& form, bool equal) {
  if (form.is_const()) return make_bool((form.constant == 0) == equal);
  Interval range = known_.bounds(form);
  if (range == Interval::point(0)) return make_bool(equal);
  if (range.min > 0 || range.max < 0) return make_bool(!equal);
  int64_t divisor = common_divisor(form);
  if (form.constant % divisor != 0) return make_bool(!equal);
  Linear reduced(form.constant / divisor);
  for (const Term& t : form.terms) reduced.add(t.atom, t.coef / divisor);
  if (divisor > 1) return zero(reduced, equal);
  reduced.sort();
  if (reduced.terms[0].coef < 0) reduced = -reduced;
  if (auto opposite = known_.fact(balanced(equal ? BinaryOp::NE : BinaryOp::EQ, reduced))) {
    return make_bool(!*opposite);
  }
  return known_or(balanced(equal ? BinaryOp::EQ : BinaryOp::NE, reduced));
}

Expr Rewriter::known_or(const Expr& condition) {
  auto value = known_.fact(condition);
  if (!value) return condition;
  return broadcast(make_bool(*value), condition.type().lanes);
}

Expr Rewriter::negate(const Expr& condition) {
  if (is_true(condition)) return make_int(condition.type(), 0);
  if (is_false(condition)) return make_int(condition.type(), 1);
  if (auto form = as_below_zero(condition)) return below_zero(-*form - Linear(1));
  if (auto* n = condition.as<UnaryNode>(); n != nullptr && n->op == UnaryOp::Not) return n->a;
  auto* n = condition.as<BinaryNode>();
  if (n != nullptr && n->op == BinaryOp::EQ) return known_or(ne(n->a, n->b));
  if (n != nullptr && n->op == BinaryOp::NE) return known_or(eq(n->a, n->b));
  if (n != nullptr && n->op == BinaryOp::And) {
    return join(BinaryOp::Or, negate(n->a), negate(n->b));
  }
  if (n != nullptr && n->op == BinaryOp::Or) {
    return join(BinaryOp::And, negate(n->a), negate(n->b));
  }
  return known_or(!condition);
}

namespace {

// The relation of two conditions in a conjunction or disjunction.
enum class Relation { Independent, FirstNeedless, SecondNeedless, Decided };

Relation relate(Knowledge& known, bool is_and, const Expr& p, const Expr& q) {
  if (identical(p, q)) return Relation::SecondNeedless;
  auto f = as_below_zero(p), g = as_below_zero(q);
  if (!f || !g) return Relation::Independent;
  Interval sum = known.bounds(*f + *g);
  // If both are negative, their sum is at most -2; if neither is, it is at least 0.
  if (is_and ? sum.min >= -1 : sum.max < 0) return Relation::Decided;
  Interval difference = known.bounds(*g - *f);
  if (difference.max <= 0) {  // p implies q
    return is_and ? Relation::SecondNeedless : Relation::FirstNeedless;
  }
  if (difference.min >= 0) return is_and ? Relation::FirstNeedless : Relation::SecondNeedless;
  return Relation::Independent;
}

}  // namespace

Expr Rewriter::join(BinaryOp op, const Expr& a, const Expr& b) {
  bool is_and = op == BinaryOp::And;
  std::vector<Expr> parts, kept;
  flatten(op, a, parts);
  flatten(op, b, parts);
  Expr decided = make_int(a.type(), is_and ? 0 : 1);
  for (const Expr& part : parts) {
    if (is_and ? is_true(part) : is_false(part)) continue;
    if (is_and ? is_false(part) : is_true(part)) return decided;
    bool needed = true;
    for (size_t i = 0; i < kept.size() && needed;) {
      Relation relation = relate(known_, is_and, kept[i], part);
      if (relation == Relation::Decided) return decided;
      needed = relation != Relation::SecondNeedless;
      if (relation == Relation::FirstNeedless) {
        kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    if (!needed) continue;
    Expr opposite = negate(part);
    for (const Expr& other : kept) {
      if (identical(opposite, other)) return decided;
    }
    kept.push_back(part);
  }
  if (kept.empty()) return make_int(a.type(), is_and ? 1 : 0);
  Expr result = kept[0];
  for (size_t i = 1; i < kept.size(); ++i) result = binary(op, result, kept[i]);
  return result;
}

}  // namespace tilewright::arith
