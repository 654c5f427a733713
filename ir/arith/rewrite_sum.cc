// Sums and products of index expressions, and pairs of terms that have a simpler sum.
#include <algorithm>

#include "ir/arith/order.h"
#include "ir/arith/rewriter.h"

namespace tilewright::arith {

Linear Rewriter::linear(const Expr& e) {
  refresh();
  Linear form;
  accumulate(e, 1, form);
  merge_pairs(form);
  return form;
}

void Rewriter::accumulate(const Expr& e, int64_t scale, Linear& out) {
  if (scale == 0) return;
  if (auto value = as_int(e)) return out.add(checked_mul(*value, scale));
  if (auto* n = e.as<UnaryNode>(); n != nullptr && n->op == UnaryOp::Neg) {
    return accumulate(n->a, checked_mul(scale, -1), out);
  }
  auto* n = e.as<BinaryNode>();
  if (n != nullptr && (n->op == BinaryOp::Add || n->op == BinaryOp::Sub)) {
    accumulate(n->a, scale, out);
    return accumulate(n->b, n->op == BinaryOp::Add ? scale : checked_mul(scale, -1), out);
  }
  if (n != nullptr && n->op == BinaryOp::Mul) {
    if (auto k = as_int(n->b)) return accumulate(n->a, checked_mul(scale, *k), out);
    if (auto k = as_int(n->a)) return accumulate(n->b, checked_mul(scale, *k), out);
  }
  out.add(atom(e), scale);
}

Linear Rewriter::atom(const Expr& e) {
  if (e.as<VarNode>() != nullptr) {
    auto value = known_.value_of(e);
    return value ? Linear(*value) : Linear::atom(e);
  }
  if (const Linear* known = atoms_.find(e)) return *known;
  Linear form = atom_of_node(e);
  Expr single = form.single();
  if (single.defined() && identical(single, e)) form = Linear::atom(e);
  atoms_.put(e, form);
  return form;
}

Linear Rewriter::atom_of_node(const Expr& e) {
  if (auto* n = e.as<BinaryNode>()) {
    switch (n->op) {
      case BinaryOp::Mul: return multiply(linear(n->a), linear(n->b));
      case BinaryOp::FloorDiv: return divide(linear(n->a), linear(n->b));
      case BinaryOp::FloorMod: return modulo(linear(n->a), linear(n->b));
      default: return min_max(n->op, e);
    }
  }
  if (auto* n = e.as<SelectNode>()) {
    Choice c = rewrite_choice(n->cond, n->on_true, n->on_false);
    return c.cond.defined() ? Linear::atom(select(c.cond, c.on_true, c.on_false))
                            : Linear::of(c.on_true);
  }
  Expr rewritten;
  if (auto* n = e.as<CastNode>()) rewritten = rewrite_cast(*n, e);
  if (auto* n = e.as<UnaryNode>()) rewritten = rewrite_unary(*n, e);
  if (auto* n = e.as<LoadNode>()) rewritten = rewrite_load(*n, e);
  if (auto* n = e.as<CallNode>()) rewritten = rewrite_call(*n, e);
  return Linear::of(rewritten.defined() ? rewritten : e);
}

Linear Rewriter::multiply(const Linear& a, const Linear& b) {
  constexpr size_t kMaxTerms = 16;
  if (b.is_const()) return a * b.constant;
  if (a.is_const()) return b * a.constant;
  if ((a.terms.size() + 1) * (b.terms.size() + 1) > kMaxTerms) {
    return Linear::atom(product({a.expr(), b.expr()}));
  }
  Linear result = a * b.constant;
  result.add(Linear(b) - Linear(b.constant), a.constant);
  for (const Term& x : a.terms) {
    for (const Term& y : b.terms) {
      std::vector<Expr> all = factors(x.atom), right = factors(y.atom);
      all.insert(all.end(), right.begin(), right.end());
      result.add(product(std::move(all)), checked_mul(x.coef, y.coef));
    }
  }
  return result;
}

bool Rewriter::merge_pairs(Linear& form) {
  constexpr int kMaxRounds = 16;
  bool any = false;
  for (int round = 0; round < kMaxRounds && form.terms.size() > 1; ++round) {
    std::vector<Term> terms = form.terms;
    bool merged =
        std::any_of(terms.begin(), terms.end(), [&](const Term& t) { return merge_pair(form, t); });
    if (!merged) break;
    any = true;
  }
  return any;
}

namespace {

// True when `form` holds k times every term of `part`.
bool holds(const Linear& form, const Linear& part, int64_t k) {
  return !part.terms.empty() &&
         std::all_of(part.terms.begin(), part.terms.end(), [&](const Term& t) {
           int64_t scaled = 0;
           return !__builtin_mul_overflow(t.coef, k, &scaled) && form.coef_of(t.atom) == scaled;
         });
}

}  // namespace

// Applies one of these rules, for k >= 1 or k <= -1:
//   k*c*floordiv(x, c) + k*floormod(x, c)              -> k*x
//   k*c*floormod(floordiv(x, c), d) + k*floormod(x, c) -> k*floormod(x, c*d)
//   k*x - k*c*floordiv(x, c)                           -> k*floormod(x, c)
//   k*x - k*floormod(x, c)                             -> k*c*floordiv(x, c)
bool Rewriter::merge_pair(Linear& form, const Term& term) {
  if (auto div = as_div(term.atom); div && term.coef % div->divisor == 0) {
    int64_t c = div->divisor, k = term.coef / c;
    Linear x = Linear::of(div->dividend), mod = modulo(x, c);
    bool whole = mod.single().defined() && holds(form, mod, k);
    if (!whole && !holds(form, x, -k)) return false;
    form.add(term.atom, checked_mul(term.coef, -1));
    form.add(x, k);
    form.add(mod, checked_mul(k, -1));
    return true;
  }
  auto mod = as_mod(term.atom);
  if (!mod) return merge_symbolic(form, term);
  Linear x = Linear::of(mod->dividend);
  if (holds(form, x, checked_mul(term.coef, -1))) {
    form.add(term.atom, checked_mul(term.coef, -1));
    form.add(x, term.coef);
    form.add(divide(x, mod->divisor), checked_mul(checked_mul(term.coef, -1), mod->divisor));
    return true;
  }
  auto inner = as_div(mod->dividend);
  if (!inner || term.coef % inner->divisor != 0) return false;
  int64_t k = term.coef / inner->divisor;
  x = Linear::of(inner->dividend);
  Linear low = modulo(x, inner->divisor);
  if (!low.single().defined() || !holds(form, low, k)) return false;
  form.add(term.atom, checked_mul(term.coef, -1));
  form.add(low, checked_mul(k, -1));
  form.add(modulo(x, checked_mul(inner->divisor, mod->divisor)), k);
  return true;
}

// k*n*floordiv(x, n) + k*floormod(x, n) -> k*x, for a product n of a constant and variables.
bool Rewriter::merge_symbolic(Linear& form, const Term& term) {
  auto* n = term.atom.as<BinaryNode>();
  if (n == nullptr || n->op != BinaryOp::FloorMod) return false;
  Linear divisor = Linear::of(n->b);
  if (divisor.terms.size() != 1 || divisor.constant != 0) return false;
  std::vector<Expr> parts = factors(divisor.terms[0].atom);
  parts.push_back(floordiv(n->a, n->b));
  Expr whole = product(std::move(parts));
  int64_t coef = checked_mul(term.coef, divisor.terms[0].coef);
  if (form.coef_of(whole) != coef) return false;
  form.add(whole, -coef);
  form.add(term.atom, -term.coef);
  form.add(Linear::of(n->a), term.coef);
  return true;
}

namespace {

// Takes the terms (and the constant) that all forms share out of them.
Linear take_common(std::vector<Linear>& forms) {
  Linear common;
  auto in_all = [&](const auto& has) { return std::all_of(forms.begin(), forms.end(), has); };
  for (const Term& t : forms[0].terms) {
    if (in_all([&](const Linear& f) { return f.coef_of(t.atom) == t.coef; })) {
      common.add(t.atom, t.coef);
    }
  }
  int64_t constant = forms[0].constant;
  if (in_all([&](const Linear& f) { return f.constant == constant; })) common.add(constant);
  for (Linear& f : forms) f.add(common, -1);
  return common;
}

}  // namespace

Linear Rewriter::min_max(BinaryOp op, const Expr& e) {
  std::vector<Expr> written, args;
  std::vector<Linear> all, kept;
  flatten(op, e, written);
  for (const Expr& arg : written) {
    Linear form = linear(arg);
    Expr single = form.single();
    std::vector<Expr> nested;
    if (single.defined()) flatten(op, single, nested);
    if (nested.size() < 2) {
      all.push_back(std::move(form));
    } else {
      for (const Expr& x : nested) all.push_back(Linear::of(x));
    }
  }
  // True when x is the result of op(x, y) for all their values.
  auto decides = [&](const Linear& x, const Linear& y) {
    Interval difference = known_.bounds(x - y);
    return op == BinaryOp::Min ? difference.max <= 0 : difference.min >= 0;
  };
  for (size_t i = 0; i < all.size(); ++i) {
    bool needless = false;
    for (size_t j = 0; j < all.size() && !needless; ++j) {
      // When two are always equal, the first one stays.
      needless = j != i && decides(all[j], all[i]) && (j < i || !decides(all[i], all[j]));
    }
    if (!needless) kept.push_back(all[i]);
  }
  if (kept.empty()) kept.push_back(all[0]);
  if (kept.size() == 1) return kept[0];
  Linear result = take_common(kept);
  for (const Linear& form : kept) args.push_back(form.expr());
  std::stable_sort(args.begin(), args.end(),
                   [](const Expr& x, const Expr& y) { return order(x, y) < 0; });
  Expr joined = args[0];
  for (size_t i = 1; i < args.size(); ++i) joined = binary(op, joined, args[i]);
  // An argument without its common part may itself be a minimum.
  bool nested = std::any_of(args.begin(), args.end(), [&](const Expr& arg) {
    auto* n = arg.as<BinaryNode>();
    return n != nullptr && n->op == op;
  });
  if (nested) return result + min_max(op, joined);
  result.add(joined, 1);
  return result;
}

}  // namespace tilewright::arith
