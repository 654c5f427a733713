// Known facts about variables, and the bounds of index expressions that follow from them.
#pragma once

#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/arith/interval.h"
#include "ir/arith/linear.h"

namespace tilewright::arith {

// A cache of results by node, cleared when facts change. Entries hold their expression, so that its
// address is not reused. An inner scope starts empty, and pop restores the outer entries.
template <class T>
class ScopedMemo {
 public:
  const T* find(const Expr& e) const {
    auto it = levels_.back().find(e.get());
    return it == levels_.back().end() ? nullptr : &it->second.second;
  }
  void put(const Expr& e, T value) {
    levels_.back().insert_or_assign(e.get(), std::pair(e, std::move(value)));
  }
  void push() { levels_.emplace_back(); }
  void pop() { levels_.pop_back(); }
  void clear() { levels_.back().clear(); }

 private:
  std::vector<std::unordered_map<const ExprNode*, std::pair<Expr, T>>> levels_{1};
};

// Ranges of variables, linear inequalities, and conditions that hold or do not hold. Ranges are
// numbers, and linear forms as well where they depend on other variables.
class Knowledge {
 public:
  // Opens a scope; pop() forgets everything learned since.
  void push();
  void pop();

  // `lower` and `upper` are ends in terms of other variables, both included. With `fold` false, the
  // variable stays in expressions even where it has a single value.
  void bind(const Expr& var, Interval range, std::optional<Linear> lower = {},
            std::optional<Linear> upper = {}, bool fold = true);
  // Defines an internal variable that outlives every scope. No expression seen so far has it.
  void define(const Expr& var, Interval range);
  void forget(const Expr& var) { vars_.erase(var.get()); }
  // Records form <= 0. A variable that names the value of a form stands for that form as well,
  // unless the form reads memory.
  void learn_not_positive(const Linear& form);
  // Records that a boolean expression in canonical form is true, or false.
  void learn_fact(const Expr& condition, bool value);
  std::optional<bool> fact(const Expr& condition) const;

  Interval range_of(const Expr& var) const;
  // The variable's only value, where the variable is to be replaced by it.
  std::optional<int64_t> value_of(const Expr& var) const;
  Interval bounds(const Linear& form);
  // Bounds of an integer expression of any type, in canonical form.
  Interval bounds(const Expr& e);

  // A counter of changes, so that callers know when to drop derived results.
  uint64_t version() const { return version_; }

 private:
  struct VarFact {
    Expr var;
    Interval range;
    std::optional<Linear> lower, upper;
    int age;  // a later variable may depend on earlier ones
    bool fold;
  };
  struct Inequality {  // terms <= limit, with no common divisor
    Linear terms;
    int64_t limit;
  };
  struct Scope {
    std::vector<std::pair<Expr, std::optional<VarFact>>> replaced;
    size_t inequalities, facts;
  };

  // The form whose value a variable names; null where it is none.
  const Linear* definition_of(const Expr& var) const;
  void changed();
  void set(const Expr& var, VarFact fact);
  void tighten_variables(const Linear& terms, int64_t limit);
  void tighten(const Expr& var, Interval range);

  Interval bounds_both_ways(const Linear& form);
  Interval atom_bounds(const Expr& atom);
  Interval binary_bounds(BinaryOp op, const Expr& a, const Expr& b);
  // The least upper bound found for `form`; each of the functions below tries one way to improve
  // it.
  int64_t upper(const Linear& form, int depth);
  int64_t upper_by_terms(const Linear& form);
  int64_t upper_by_inequalities(const Linear& form, int depth);
  int64_t upper_by_ranges(const Linear& form, int depth);
  int64_t upper_by_branches(const Linear& form, int depth);
  int64_t upper_by_division(const Linear& form, int depth);
  int64_t upper_by_remainder(const Linear& form, int depth);
  int64_t upper_by_quotient(const Linear& form, int depth);
  int64_t upper_by_product(const Linear& form, int depth);

  std::unordered_map<const ExprNode*, VarFact> vars_;
  std::vector<Inequality> inequalities_;
  std::vector<std::pair<Expr, bool>> facts_;
  std::vector<Scope> scopes_{1};
  ScopedMemo<Interval> memo_;
  bool symbolic_ = false;  // some variable has an end in terms of other variables
  uint64_t version_ = 0;
  int age_ = 0;
  bool asking_ = false;  // a bounds query is running
  int effort_ = 0;       // refinements left in that query
};

// The interval of all values of an integer type.
Interval values_of(ElemType elem);

}  // namespace tilewright::arith
