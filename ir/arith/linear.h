// Linear forms of index expressions: a sum of atoms with constant coefficients, plus a constant.
#pragma once

#include <optional>
#include <vector>

#include "ir/expr.h"

namespace tilewright::arith {

// Thrown when a coefficient leaves the range of 64 bits; the caller gives up the rewrite.
struct Overflow {};

int64_t checked_add(int64_t a, int64_t b);  // throw Overflow
int64_t checked_mul(int64_t a, int64_t b);
int64_t floor_div(int64_t a, int64_t b);  // b > 0
int64_t floor_mod(int64_t a, int64_t b);  // b > 0

struct Term {
  Expr atom;
  int64_t coef;  // never 0, nor INT64_MIN
};

// An atom is a scalar index expression that is neither a sum nor a multiple by a constant. Examples
// are a variable, floordiv, floormod, min, max, a product of atoms, and a load. No two terms have
// identical atoms. Operations throw Overflow.
struct Linear {
  std::vector<Term> terms;
  int64_t constant = 0;

  Linear() = default;
  explicit Linear(int64_t value) : constant(value) {}
  static Linear atom(const Expr& e, int64_t coef = 1);
  // Splits sums and constant multiples; changes nothing below them.
  static Linear of(const Expr& e);

  bool is_const() const { return terms.empty(); }
  bool is_zero() const { return terms.empty() && constant == 0; }
  // The atom, where the form is exactly one atom; undefined otherwise.
  Expr single() const;
  int64_t coef_of(const Expr& atom) const;

  void add(const Expr& atom, int64_t coef);
  void add(const Linear& other, int64_t scale = 1);
  void add(int64_t value) { constant = checked_add(constant, value); }
  // Adds the linear form of an expression, split as of() does, times `scale`.
  void add_parts(const Expr& e, int64_t scale);

  // sort(): canonical order, the widest stride first, then by name. expr(): the form as an
  // expression.
  void sort();
  Expr expr() const;
};

Linear operator-(const Linear& a);
Linear operator+(Linear a, const Linear& b);
Linear operator-(Linear a, const Linear& b);
Linear operator*(Linear a, int64_t k);
// The greatest common divisor of the coefficients; 0 without terms.
int64_t common_divisor(const Linear& a);
// Same terms and constant, in any order.
bool same(const Linear& a, const Linear& b);

// factors(): the factors of a product atom, or the atom itself. product(): the product of factors
// in canonical order (1 for none).
std::vector<Expr> factors(const Expr& atom);
Expr product(std::vector<Expr> factors);
// `atom` without one occurrence of each of `divisors`; undefined when it lacks one of them.
Expr without_factors(const Expr& atom, const std::vector<Expr>& divisors);

// The parts of a floordiv or floormod atom with a positive constant divisor.
struct DivMod {
  Expr dividend;
  int64_t divisor;
};
std::optional<DivMod> as_div(const Expr& atom);
std::optional<DivMod> as_mod(const Expr& atom);

}  // namespace tilewright::arith
