// Random index expressions and their values, for property tests of the simplifier.
#pragma once

#include <map>
#include <random>
#include <vector>

#include "ir/expr.h"

namespace tilewright::test {

using Assignment = std::map<const ExprNode*, int64_t>;

// The value of a scalar integer or boolean expression, or of lane `lane` of a vector one. Throws
// std::domain_error for a division by zero and std::invalid_argument for an unknown node.
int64_t value_of(const Expr& e, const Assignment& values, int lane = 0);

struct RangedVar {
  Var var;
  int64_t min, extent;
};

// Grows expressions over a few variables of small ranges.
class ExprGenerator {
 public:
  explicit ExprGenerator(uint64_t seed);

  Expr index(int depth);
  Expr condition(int depth);
  // An expression of `lanes` lanes: ramps, broadcasts and arithmetic on them.
  Expr index_vector(int depth, int lanes);
  int64_t number(int64_t low, int64_t high);
  Assignment assignment();
  const std::vector<RangedVar>& vars() const { return vars_; }

 private:
  Expr leaf();

  std::mt19937_64 random_;
  std::vector<RangedVar> vars_;
};

}  // namespace tilewright::test
