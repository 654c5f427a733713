// Ranges of the indices of an `expr`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/arith/interval.h"
#include "ir/ops/expr/expr_syntax.h"
#include "ir/ops/spec.h"

namespace tilewright::ops {

// constant + sum of coefficient * index.
struct Linear {
  int64_t constant = 0;
  std::map<std::string, int64_t> terms;  // no zero coefficients
};

// a + factor * b, or nothing when a number grows beyond what any allowed tensor needs.
std::optional<Linear> add_scaled(Linear a, const Linear& b, int64_t factor);
// The linear form, or nothing for an expression that is not affine: products of indices, floors,
// reads, fractions.
std::optional<Linear> linear_form(const Syntax& s);
// True for arithmetic on index names and whole numbers alone.
bool is_index_arithmetic(const Syntax& s);

// The ranges of index names, and the facts that the conditions around a read give.
class IndexBounds {
 public:
  explicit IndexBounds(const std::map<std::string, DimSize>& dims) : dims_(dims) {}

  // The condition holds (or fails, when `holds` is false) until `pop`.
  void push(const Syntax& condition, bool holds);
  void pop() { facts_.pop_back(); }

  // The range of index `s` with every dimension at its maximum; unbounded where it reads a tensor.
  Interval bounds(const Syntax& s) const;

 private:
  void collect(const Syntax& condition, bool holds, std::vector<Linear>& facts) const;
  Interval range_of(const std::string& name) const;
  Interval linear_bounds(const Linear& l) const;

  const std::map<std::string, DimSize>& dims_;
  std::vector<std::vector<Linear>> facts_;  // each form is at least 0
};

}  // namespace tilewright::ops
