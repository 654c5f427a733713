// Common parts of the passes that decide conditions outside of loops.
#pragma once

#include <map>
#include <utility>

#include "ir/visitor.h"

namespace tilewright {

// True when iterations of the loop over `var` add to the same elements.
bool carries_reduction(const Expr& var, const Stmt& body);

// Replaces comparisons by other conditions, by node.
class ReplaceConditions : public Mutator {
 public:
  explicit ReplaceConditions(std::map<const ExprNode*, Expr> map) : map_(std::move(map)) {}

 protected:
  Expr mutate_binary(const BinaryNode& n, const Expr& e) override {
    auto it = map_.find(&n);
    return it == map_.end() ? Mutator::mutate_binary(n, e) : it->second;
  }

 private:
  std::map<const ExprNode*, Expr> map_;
};

// e such that the comparison of indices is e < 0; undefined for other conditions.
Expr below_zero(const Expr& comparison);

}  // namespace tilewright
