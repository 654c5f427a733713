#include "ir/arith/linear.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "ir/arith/order.h"

namespace tilewright::arith {
namespace {

// Coefficients need a magnitude, so INT64_MIN is rejected.
int64_t coefficient(int64_t value) {
  if (value == INT64_MIN) throw Overflow{};
  return value;
}

Expr scaled(const Expr& atom, int64_t coef) { return coef == 1 ? atom : atom * Expr(coef); }

std::optional<DivMod> as_divided(BinaryOp op, const Expr& atom) {
  auto* n = atom.as<BinaryNode>();
  if (n == nullptr || n->op != op) return std::nullopt;
  auto divisor = as_int(n->b);
  if (!divisor || *divisor <= 0) return std::nullopt;
  return DivMod{n->a, *divisor};
}

}  // namespace

int64_t checked_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw Overflow{};
  return sum;
}

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) throw Overflow{};
  return result;
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
int64_t floor_mod(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }

Linear Linear::atom(const Expr& e, int64_t coef) {
  Linear result;
  if (coef != 0) result.terms.push_back({e, coef});
  return result;
}

Linear Linear::of(const Expr& e) {
  Linear result;
  result.add_parts(e, 1);
  return result;
}

void Linear::add_parts(const Expr& e, int64_t scale) {
  if (auto value = as_int(e)) return add(checked_mul(*value, scale));
  if (auto* n = e.as<UnaryNode>(); n != nullptr && n->op == UnaryOp::Neg) {
    return add_parts(n->a, checked_mul(scale, -1));
  }
  if (auto* n = e.as<BinaryNode>()) {
    if (n->op == BinaryOp::Add || n->op == BinaryOp::Sub) {
      add_parts(n->a, scale);
      return add_parts(n->b, n->op == BinaryOp::Add ? scale : checked_mul(scale, -1));
    }
    if (n->op == BinaryOp::Mul) {
      if (auto k = as_int(n->b)) return add_parts(n->a, checked_mul(scale, *k));
      if (auto k = as_int(n->a)) return add_parts(n->b, checked_mul(scale, *k));
    }
  }
  add(e, scale);
}

Expr Linear::single() const {
  return terms.size() == 1 && constant == 0 && terms[0].coef == 1 ? terms[0].atom : Expr();
}

int64_t Linear::coef_of(const Expr& atom) const {
  for (const Term& t : terms) {
    if (identical(t.atom, atom)) return t.coef;
  }
  return 0;
}

void Linear::add(const Expr& atom, int64_t coef) {
  if (coef == 0) return;
  for (auto it = terms.begin(); it != terms.end(); ++it) {
    if (!identical(it->atom, atom)) continue;
    it->coef = coefficient(checked_add(it->coef, coef));
    if (it->coef == 0) terms.erase(it);
    return;
  }
  terms.push_back({atom, coefficient(coef)});
}

void Linear::add(const Linear& other, int64_t scale) {
  for (const Term& t : other.terms) add(t.atom, checked_mul(t.coef, scale));
  add(checked_mul(other.constant, scale));
}

void Linear::sort() {
  std::stable_sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) {
    int64_t x = std::abs(a.coef), y = std::abs(b.coef);
    return x != y ? x > y : order(a.atom, b.atom) < 0;
  });
}

Expr Linear::expr() const {
  Linear sorted = *this;
  sorted.sort();
  auto head = std::find_if(sorted.terms.begin(), sorted.terms.end(),
                           [](const Term& t) { return t.coef > 0; });
  Expr sum;
  int64_t rest = constant;
  if (head != sorted.terms.end()) {
    sum = scaled(head->atom, head->coef);
  } else if (sorted.terms.empty() || constant != 0) {
    sum = Expr(constant);
    rest = 0;
  } else {
    head = sorted.terms.begin();
    sum = scaled(head->atom, head->coef);
  }
  for (auto it = sorted.terms.begin(); it != sorted.terms.end(); ++it) {
    if (it == head) continue;
    bool negative = it->coef < 0;
    Expr part = scaled(it->atom, std::abs(it->coef));
    sum = negative ? sum - part : sum + part;
  }
  if (rest == 0) return sum;
  return rest < 0 && rest != INT64_MIN ? sum - Expr(-rest) : sum + Expr(rest);
}

Linear operator-(const Linear& a) { return a * -1; }

Linear operator+(Linear a, const Linear& b) {
  a.add(b);
  return a;
}

Linear operator-(Linear a, const Linear& b) {
  a.add(b, -1);
  return a;
}

Linear operator*(Linear a, int64_t k) {
  if (k == 0) return Linear();
  for (Term& t : a.terms) t.coef = coefficient(checked_mul(t.coef, k));
  a.constant = checked_mul(a.constant, k);
  return a;
}

int64_t common_divisor(const Linear& a) {
  int64_t divisor = 0;
  for (const Term& t : a.terms) divisor = std::gcd(divisor, t.coef);
  return divisor;
}

bool same(const Linear& a, const Linear& b) {
  if (a.constant != b.constant || a.terms.size() != b.terms.size()) return false;
  return std::all_of(a.terms.begin(), a.terms.end(),
                     [&](const Term& t) { return b.coef_of(t.atom) == t.coef; });
}

std::vector<Expr> factors(const Expr& atom) {
  auto* n = atom.as<BinaryNode>();
  if (n == nullptr || n->op != BinaryOp::Mul) return {atom};
  std::vector<Expr> result = factors(n->a), right = factors(n->b);
  result.insert(result.end(), right.begin(), right.end());
  return result;
}

Expr product(std::vector<Expr> factors) {
  if (factors.empty()) return Expr(1);
  std::stable_sort(factors.begin(), factors.end(),
                   [](const Expr& a, const Expr& b) { return order(a, b) < 0; });
  Expr result = factors[0];
  for (size_t i = 1; i < factors.size(); ++i) result = result * factors[i];
  return result;
}

Expr without_factors(const Expr& atom, const std::vector<Expr>& divisors) {
  std::vector<Expr> left = factors(atom);
  for (const Expr& d : divisors) {
    auto it =
        std::find_if(left.begin(), left.end(), [&](const Expr& f) { return identical(f, d); });
    if (it == left.end()) return {};
    left.erase(it);
  }
  return product(std::move(left));
}

std::optional<DivMod> as_div(const Expr& atom) { return as_divided(BinaryOp::FloorDiv, atom); }
std::optional<DivMod> as_mod(const Expr& atom) { return as_divided(BinaryOp::FloorMod, atom); }

}  // namespace tilewright::arith
