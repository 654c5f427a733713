// Evaluates index expressions for given values of their variables: the addresses that a thread
// touches, without running it.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "ir/expr.h"

namespace tilewright {

class IndexValues {
 public:
  void set(const Var& var, int64_t value) { values_[var.get()] = value; }
  // Defines a variable as an expression of others.
  void define(const Var& var, Expr value) { defined_[var.get()] = std::move(value); }

  // The value in one lane. Unknown values count as 0: variables that are not set, and elements read
  // from memory.
  int64_t at(const Expr& e, int lane = 0) const;

 private:
  int64_t binary(const BinaryNode& n, int lane) const;
  int64_t of_variable(const VarNode& n, int lane) const;

  std::unordered_map<const ExprNode*, int64_t> values_;
  std::unordered_map<const ExprNode*, Expr> defined_;
};

}  // namespace tilewright
