// Rewrites expressions into canonical form under known facts.
#pragma once

#include <map>
#include <vector>

#include "ir/arith/knowledge.h"
#include "ir/arith/linear.h"
#include "ir/expr.h"

namespace tilewright::arith {

// Index expressions become linear forms whose atoms are themselves canonical:
//   floordiv(x, c): no part of x is a multiple of c, the constant of x is in [0, c), and x and c
//                   have no common divisor (up to a rest too small to matter);
//   floormod(x, c): the same;
//   min, max:       no argument is decided by bounds; terms that both sides share stand outside;
//   products:       of atoms in order, distributed over sums.
//
// Comparisons of index expressions have positive terms on both sides, `<` `>=` `==` `!=` only.
class Rewriter {
 public:
  explicit Rewriter(Knowledge* known) : known_(*known) {}

  // The canonical form; `e` itself when it is already canonical. Throws Overflow.
  Expr rewrite(const Expr& e);
  // The canonical linear form of a scalar index expression.
  Linear linear(const Expr& e);

  void push();
  void pop();
  // Adds a condition to the known facts.
  void assume(const Expr& condition);

 private:
  // rewriter.cc: every kind of node, and arithmetic outside index expressions.
  Expr rewrite_node(const Expr& e);
  Expr rewrite_var(const Expr& e);
  Expr rewrite_cast(const CastNode& n, const Expr& e);
  Expr rewrite_unary(const UnaryNode& n, const Expr& e);
  Expr rewrite_binary(const BinaryNode& n, const Expr& e);
  Expr rewrite_load(const LoadNode& n, const Expr& e);
  Expr rewrite_call(const CallNode& n, const Expr& e);
  // The parts of a choice, each rewritten under what the condition implies for it.
  struct Choice {
    Expr cond, on_true, on_false;
  };
  Choice rewrite_choice(const Expr& cond, const Expr& on_true, const Expr& on_false);
  Expr under(const Expr& condition, const Expr& e);

  // rewrite_sum.cc: sums, products, and pairs of terms that merge.
  void accumulate(const Expr& e, int64_t scale, Linear& out);
  Linear atom(const Expr& e);
  Linear atom_of_node(const Expr& e);
  Linear multiply(const Linear& a, const Linear& b);
  bool merge_pairs(Linear& form);  // true when there were any
  bool merge_pair(Linear& form, const Term& term);
  bool merge_symbolic(Linear& form, const Term& term);
  Linear min_max(BinaryOp op, const Expr& e);

  // rewrite_division.cc
  Linear divide(const Linear& a, const Linear& b);
  Linear modulo(const Linear& a, const Linear& b);
  Linear divide(const Linear& a, int64_t divisor);
  Linear modulo(const Linear& a, int64_t divisor);
  Linear divide_rest(const Linear& rest, int64_t divisor);
  struct Split {
    Linear quotient, rest;
  };
  Split split(const Linear& a, const Linear& divisor);
  bool within(const Linear& form, const Linear& limit);
  // rest = divisor * wide + small, where 0 <= small < divisor is known; divisor is 1 when there is
  // none.
  struct Shortened {
    Linear wide, small;
    int64_t divisor = 1;
  };
  Shortened shorten(const Linear& rest, const std::vector<int64_t>& divisors);

  // rewrite_condition.cc
  Expr compare(const BinaryNode& n);
  Expr compare(BinaryOp op, Linear difference);
  Expr below_zero(Linear form);
  Expr zero(const Linear& form, bool equal);
  Linear tighten_below_zero(Linear form);
  Expr negate(const Expr& condition);
  Expr join(BinaryOp op, const Expr& a, const Expr& b);
  Expr known_or(const Expr& condition);

  // rewrite_vector.cc: vectors as scalar expressions of a lane number.
  Expr rewrite_vector(const Expr& e);
  Expr rewrite_opaque(const Expr& e);
  Expr lane_of(int lanes);

  // Clears results that were derived from other facts.
  void refresh();

  Knowledge& known_;
  uint64_t version_ = 0;
  ScopedMemo<Expr> memo_;
  ScopedMemo<Linear> atoms_;
  std::map<int, Expr> lanes_;
};

// as_below_zero(): a condition as `form < 0`, where it is a canonical comparison of index
// expressions of that kind. as_zero(): the same for `form == 0`.
std::optional<Linear> as_below_zero(const Expr& condition);
std::optional<Linear> as_zero(const Expr& condition);

bool is_true(const Expr& e);  // a boolean constant, in every lane
bool is_false(const Expr& e);
// The constant in every lane; undefined when `e` is no constant.
Expr constant_lane(const Expr& e);

// Appends the operands of nested `op`: of minima, of maxima, of conjunctions.
void flatten(BinaryOp op, const Expr& e, std::vector<Expr>& out);

}  // namespace tilewright::arith
