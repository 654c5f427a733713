// Floor division and its remainder.
#include <algorithm>
#include <numeric>

#include "ir/arith/rewriter.h"

namespace tilewright::arith {
namespace {

// Splits a sum into multiples of a constant divisor and a rest. Coefficients are rounded toward
// zero, so that the rest of a variable keeps its sign. The constant of the rest is in [0, divisor).
void cut(const Linear& a, int64_t divisor, Linear& quotient, Linear& rest) {
  for (const Term& t : a.terms) {
    quotient.add(t.atom, t.coef / divisor);
    rest.add(t.atom, t.coef % divisor);
  }
  quotient.add(floor_div(a.constant, divisor));
  rest.add(floor_mod(a.constant, divisor));
}

// The quotient that all values within the bounds share, or nothing.
std::optional<int64_t> only_quotient(Interval bounds, int64_t divisor) {
  if (!bounds.is_bounded()) return std::nullopt;
  int64_t low = floor_div(bounds.min, divisor), high = floor_div(bounds.max, divisor);
  return low == high ? std::optional(low) : std::nullopt;
}

// The greatest common divisors above 1 of `divisor` with each coefficient, the largest first.
std::vector<int64_t> common_divisors(const Linear& form, int64_t divisor) {
  std::vector<int64_t> result;
  for (const Term& t : form.terms) {
    int64_t g = std::gcd(t.coef, divisor);
    if (g > 1) result.push_back(g);
  }
  std::sort(result.begin(), result.end(), std::greater<>());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

}  // namespace

Rewriter::Shortened Rewriter::shorten(const Linear& rest, const std::vector<int64_t>& divisors) {
  for (int64_t g : divisors) {
    Shortened result;
    for (const Term& t : rest.terms) {
      bool multiple = t.coef % g == 0;
      (multiple ? result.wide : result.small).add(t.atom, multiple ? t.coef / g : t.coef);
    }
    if (result.wide.terms.empty()) continue;
    result.small.add(rest.constant);
    auto k = only_quotient(known_.bounds(result.small), g);
    if (!k) continue;
    result.wide.add(*k);
    result.small.add(checked_mul(-*k, g));
    result.divisor = g;
    return result;
  }
  return {};
}

Linear Rewriter::divide(const Linear& a, int64_t divisor) {
  if (divisor == 0) return Linear::atom(floordiv(a.expr(), Expr(0)));
  if (divisor == INT64_MIN) throw Overflow{};
  if (divisor < 0) return divide(-a, -divisor);
  if (divisor == 1) return a;
  Linear quotient, rest;
  cut(a, divisor, quotient, rest);
  // The reduced coefficients may merge where the original ones did not.
  quotient.add(merge_pairs(rest) ? divide(rest, divisor) : divide_rest(rest, divisor));
  return quotient;
}

// Requires the coefficients of `rest` in (-divisor, divisor) and its constant in [0, divisor).
Linear Rewriter::divide_rest(const Linear& rest, int64_t divisor) {
  if (auto k = only_quotient(known_.bounds(rest), divisor)) return Linear(*k);
  // floordiv(g*x + s, g*c) == floordiv(x, c) for 0 <= s < g
  Shortened shorter = shorten(rest, common_divisors(rest, divisor));
  if (shorter.divisor > 1) return divide(shorter.wide, divisor / shorter.divisor);
  if (rest.terms.size() == 1 && rest.terms[0].coef == 1) {
    // floordiv(floordiv(x, a) + k, c) == floordiv(x + k*a, a*c)
    if (auto inner = as_div(rest.terms[0].atom)) {
      Linear x = Linear::of(inner->dividend);
      x.add(checked_mul(rest.constant, inner->divisor));
      return divide(x, checked_mul(inner->divisor, divisor));
    }
    // floordiv(floormod(x, c*a), c) == floormod(floordiv(x, c), a)
    auto inner = as_mod(rest.terms[0].atom);
    if (inner && rest.constant == 0 && inner->divisor % divisor == 0) {
      return modulo(divide(Linear::of(inner->dividend), divisor), inner->divisor / divisor);
    }
  }
  return Linear::atom(floordiv(rest.expr(), Expr(divisor)));
}

Linear Rewriter::modulo(const Linear& a, int64_t divisor) {
  if (divisor == 0) return Linear::atom(floormod(a.expr(), Expr(0)));
  if (divisor == INT64_MIN) throw Overflow{};
  if (divisor < 0) return -modulo(-a, -divisor);
  if (divisor == 1) return Linear();
  Linear quotient, rest;
  cut(a, divisor, quotient, rest);
  if (merge_pairs(rest)) return modulo(rest, divisor);
  if (auto k = only_quotient(known_.bounds(rest), divisor)) {
    return rest - Linear(checked_mul(*k, divisor));
  }
  // floormod(k*floormod(x, b) + y, c) == floormod(k*x + y, c) where c divides k*b
  for (const Term& t : rest.terms) {
    auto inner = as_mod(t.atom);
    if (!inner || checked_mul(t.coef, inner->divisor) % divisor != 0) continue;
    Linear opened = rest;
    opened.add(t.atom, -t.coef);
    opened.add(Linear::of(inner->dividend), t.coef);
    merge_pairs(opened);
    return modulo(opened, divisor);
  }
  // floormod(g*x + s, g*c) == g*floormod(x, c) + s for 0 <= s < g
  Shortened shorter = shorten(rest, common_divisors(rest, divisor));
  if (shorter.divisor > 1) {
    return modulo(shorter.wide, divisor / shorter.divisor) * shorter.divisor + shorter.small;
  }
  return Linear::atom(floormod(rest.expr(), Expr(divisor)));
}

// a == divisor * quotient + rest, as far as the divisor appears in the terms.
Rewriter::Split Rewriter::split(const Linear& a, const Linear& divisor) {
  Split result{{}, a};
  if (same(a, divisor)) return {Linear(1), Linear()};
  if (divisor.terms.size() != 1 || divisor.constant != 0) return result;
  int64_t coef = divisor.terms[0].coef;
  std::vector<Expr> wanted = factors(divisor.terms[0].atom);
  for (const Term& t : a.terms) {
    if (t.coef % coef != 0) continue;
    Expr left = without_factors(t.atom, wanted);
    if (!left.defined()) continue;
    result.rest.add(t.atom, -t.coef);
    result.quotient.add_parts(left, t.coef / coef);
  }
  return result;
}

// 0 <= form < limit
bool Rewriter::within(const Linear& form, const Linear& limit) {
  return known_.bounds(form).min >= 0 && known_.bounds(form - limit).max < 0;
}

Linear Rewriter::divide(const Linear& a, const Linear& b) {
  if (b.is_const()) return divide(a, b.constant);
  Split parts = split(a, b);
  if (!within(parts.rest, b) && !parts.rest.is_zero()) {
    parts.quotient.add(floordiv(parts.rest.expr(), b.expr()), 1);
  }
  return parts.quotient;
}

Linear Rewriter::modulo(const Linear& a, const Linear& b) {
  if (b.is_const()) return modulo(a, b.constant);
  Split parts = split(a, b);
  if (parts.rest.is_zero() || within(parts.rest, b)) return parts.rest;
  return Linear::atom(floormod(parts.rest.expr(), b.expr()));
}

}  // namespace tilewright::arith
