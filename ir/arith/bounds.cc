// Upper bounds of linear forms: first term by term, then by each kind of fact that relates terms.
// Lower bounds are upper bounds of the negated form.
#include <algorithm>
#include <numeric>
#include <utility>

#include "ir/arith/knowledge.h"

namespace tilewright::arith {
namespace {

constexpr int64_t kPosInf = Interval::kPosInf;
constexpr int64_t kNegInf = Interval::kNegInf;

const BinaryNode* as_min_max(const Expr& atom) {
  auto* n = atom.as<BinaryNode>();
  return n != nullptr && (n->op == BinaryOp::Min || n->op == BinaryOp::Max) ? n : nullptr;
}

// `form` with the term at `index` replaced by the same multiple of `other`.
Linear replaced(const Linear& form, size_t index, const Linear& other) {
  Linear result = form;
  int64_t coef = form.terms[index].coef;
  result.terms.erase(result.terms.begin() + static_cast<std::ptrdiff_t>(index));
  result.add(other, coef);
  return result;
}

// `limit` / divisor, rounded down; nothing unless the coefficients of its variable terms are
// multiples of `divisor`.
std::optional<Linear> quotient_of(const Linear& limit, int64_t divisor) {
  Linear quotient(floor_div(limit.constant, divisor));
  for (const Term& t : limit.terms) {
    if (t.coef % divisor != 0) return std::nullopt;
    quotient.add(t.atom, t.coef / divisor);
  }
  return quotient;
}

// The dividend of nested quotients; `divisor` gets their product: floordiv(floordiv(x, a), b) is
// floordiv(x, a * b) for a positive b. At most one of the factors may be other than a constant.
Expr undivided(const Expr& e, Linear& divisor) {
  auto* n = e.as<BinaryNode>();
  if (n == nullptr || n->op != BinaryOp::FloorDiv) return e;
  const Linear own = Linear::of(n->b);
  const bool joins = divisor.is_const() ? divisor.constant > 0 : own.is_const() && own.constant > 0;
  if (!joins) return e;
  divisor = divisor.is_const() ? own * divisor.constant : divisor * own.constant;
  return undivided(n->a, divisor);
}

// Takes multiples of `divisor` out of `form`, as its first term allows; returns the quotient and
// the rest.
std::pair<Linear, Linear> taken_out(const Linear& form, const Linear& divisor) {
  const Term& lead = divisor.terms[0];
  Linear quotient, rest = form;
  for (const Term& t : form.terms) {
    const Expr left = without_factors(t.atom, factors(lead.atom));
    if (!left.defined() || t.coef % lead.coef != 0) continue;
    rest.add(t.atom, -t.coef);
    quotient.add_parts(left, t.coef / lead.coef);
  }
  Linear others = divisor;
  others.add(lead.atom, -lead.coef);
  if (!others.is_zero()) {
    if (!quotient.is_const()) return {Linear(), form};
    rest.add(others, -quotient.constant);
  }
  return {quotient, rest};
}

}  // namespace

int64_t Knowledge::upper(const Linear& form, int depth) {
  int64_t best = upper_by_terms(form);
  if (form.terms.empty() || depth == 0 || effort_ <= 0) return best;
  --effort_;
  if (!inequalities_.empty()) best = std::min(best, upper_by_inequalities(form, depth));
  if (symbolic_) best = std::min(best, upper_by_ranges(form, depth));
  if (form.terms.size() > 1) {
    best = std::min(best, upper_by_branches(form, depth));
    best = std::min(best, upper_by_division(form, depth));
    best = std::min(best, upper_by_remainder(form, depth));
    best = std::min(best, upper_by_product(form, depth));
  }
  best = std::min(best, upper_by_quotient(form, depth));
  return best;
}

int64_t Knowledge::upper_by_terms(const Linear& form) {
  Interval sum = Interval::point(form.constant);
  for (const Term& t : form.terms) {
    sum = tilewright::add(sum, mul(atom_bounds(t.atom), Interval::point(t.coef)));
  }
  return sum.max;
}

// form = k * terms + rest <= k * limit + rest, for a k >= 1 that cancels the leading term.
int64_t Knowledge::upper_by_inequalities(const Linear& form, int depth) {
  int64_t best = kPosInf;
  for (size_t i = 0; i < inequalities_.size(); ++i) {
    const Term& lead = inequalities_[i].terms.terms[0];
    int64_t coef = form.coef_of(lead.atom);
    if (coef == 0 || coef % lead.coef != 0 || coef / lead.coef <= 0) continue;
    int64_t k = coef / lead.coef;
    Linear rest = form;
    rest.add(inequalities_[i].terms, -k);
    rest.add(checked_mul(inequalities_[i].limit, k));
    best = std::min(best, upper(rest, depth - 1));
  }
  return best;
}

// Replaces the latest variable whose end on this side is a form of others by that form.
int64_t Knowledge::upper_by_ranges(const Linear& form, int depth) {
  size_t index = form.terms.size();
  int age = -1;
  const Linear* end = nullptr;
  for (size_t i = 0; i < form.terms.size(); ++i) {
    auto it = vars_.find(form.terms[i].atom.get());
    if (it == vars_.end() || it->second.age <= age) continue;
    const auto& side = form.terms[i].coef > 0 ? it->second.upper : it->second.lower;
    if (!side) continue;
    index = i;
    age = it->second.age;
    end = &*side;
  }
  return end == nullptr ? kPosInf : upper(replaced(form, index, *end), depth - 1);
}

// Replaces a min or max, with terms that it may cancel with, by each of its sides.
int64_t Knowledge::upper_by_branches(const Linear& form, int depth) {
  for (size_t i = 0; i < form.terms.size(); ++i) {
    const BinaryNode* n = as_min_max(form.terms[i].atom);
    if (n == nullptr) continue;
    int64_t a = upper(replaced(form, i, Linear::of(n->a)), depth - 1);
    int64_t b = upper(replaced(form, i, Linear::of(n->b)), depth - 1);
    // With the smaller of two added, either bound holds. With the larger, one of them does.
    bool smaller = (n->op == BinaryOp::Min) == (form.terms[i].coef > 0);
    return smaller ? std::min(a, b) : std::max(a, b);
  }
  return kPosInf;
}

// floordiv(x, c) is within ((x - c + 1) / c, x / c). The form times its divisors is therefore
// bounded by a form without them, where x may cancel.
int64_t Knowledge::upper_by_division(const Linear& form, int depth) {
  constexpr int64_t kLargestMultiple = int64_t{1} << 24;
  int64_t multiple = 1;
  for (const Term& t : form.terms) {
    if (auto div = as_div(t.atom)) multiple = std::lcm(multiple, div->divisor);
    if (multiple > kLargestMultiple) return kPosInf;
  }
  if (multiple == 1) return kPosInf;
  Linear relaxed(checked_mul(form.constant, multiple));
  for (const Term& t : form.terms) {
    int64_t coef = checked_mul(t.coef, multiple);
    auto div = as_div(t.atom);
    if (!div) {
      relaxed.add(t.atom, coef);
      continue;
    }
    int64_t k = coef / div->divisor;
    relaxed.add_parts(div->dividend, k);
    if (k < 0) relaxed.add(checked_mul(-k, div->divisor - 1));
  }
  int64_t bound = upper(relaxed, depth - 1);
  return bound == kPosInf || bound == kNegInf ? bound : floor_div(bound, multiple);
}

// floormod(x, d) is at most d - 1 for a positive d. This may cancel with other terms where d is no
// constant.
int64_t Knowledge::upper_by_remainder(const Linear& form, int depth) {
  for (size_t i = 0; i < form.terms.size(); ++i) {
    auto* n = form.terms[i].atom.as<BinaryNode>();
    if (n == nullptr || n->op != BinaryOp::FloorMod || form.terms[i].coef < 0) continue;
    Linear divisor = Linear::of(n->b);
    if (divisor.is_const() || upper(-divisor, depth - 1) > -1) continue;
    divisor.add(-1);
    return upper(replaced(form, i, divisor), depth - 1);
  }
  return kPosInf;
}

// floordiv(v, d) is at most q - 1 for a positive d, where v is at most q * d - 1. This bounds the
// quotient of a fused loop, several parts of which may have lengths known only at launch.
int64_t Knowledge::upper_by_quotient(const Linear& form, int depth) {
  for (size_t i = 0; i < form.terms.size(); ++i) {
    auto* n = form.terms[i].atom.as<BinaryNode>();
    if (n == nullptr || n->op != BinaryOp::FloorDiv || form.terms[i].coef < 0) continue;
    Linear divisor(1);
    const Expr dividend = undivided(form.terms[i].atom, divisor);
    auto it = vars_.find(dividend.get());
    if (it == vars_.end() || !it->second.upper) continue;
    if (divisor.is_const()) {
      if (divisor.constant < 1) continue;
      auto most = quotient_of(*it->second.upper, divisor.constant);
      if (most) return upper(replaced(form, i, *most), depth - 1);
      continue;
    }
    const auto [quotient, rest] = taken_out(*it->second.upper, divisor);
    if (upper(rest, depth - 1) > -1 || upper(-divisor, depth - 1) > -1) continue;
    Linear most = quotient;
    most.add(-1);
    return upper(replaced(form, i, most), depth - 1);
  }
  return kPosInf;
}

// x * y is at most max(x) * y for a y >= 0, which may cancel with other terms. This bounds the
// offset of one of several parts whose length is known only at launch.
int64_t Knowledge::upper_by_product(const Linear& form, int depth) try {
  for (size_t i = 0; i < form.terms.size(); ++i) {
    const std::vector<Expr> all = factors(form.terms[i].atom);
    for (size_t x = 0; all.size() > 1 && x < all.size(); ++x) {
      std::vector<Expr> others = all;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(x));
      const Expr y = product(others);
      if (form.coef_of(y) == 0 || upper(-Linear::of(y), depth - 1) > 0) continue;
      const Linear own = Linear::of(all[x]);
      const int64_t sign = form.terms[i].coef > 0 ? 1 : -1;
      const int64_t end = upper(own * sign, depth - 1);
      if (end == kPosInf || end == kNegInf) continue;
      return upper(replaced(form, i, Linear::atom(y) * checked_mul(end, sign)), depth - 1);
    }
  }
  return kPosInf;
} catch (const Overflow&) {
  return kPosInf;  // another rule may have found a bound
}

}  // namespace tilewright::arith
