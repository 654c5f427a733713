// What is known of variables, and the bounds of index expressions that follow from it.
#pragma once

#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/arith/linear.h"
#include "ir/interval.h"

namespace tilewright::arith {

// Results by node, forgotten when knowledge changes. Entries hold their expression, so that the
// address is not used again; an inner scope starts empty and the outer entries come back with pop.
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

// Ranges of variables (numbers, and where they depend on other variables also linear forms), linear
// inequalities, and conditions that hold or do not hold.
class Knowledge {
 public:
  // Opens a scope; pop forgets what was learned since.
  void push();
  void pop();

  // `lower` and `upper` are ends in terms of other variables, both included. A variable that is
  // not to `fold` stays in expressions also where it has one value only.
  void bind(const Expr& var, Interval range, std::optional<Linear> lower = {},
            std::optional<Linear> upper = {}, bool fold = true);
  // A variable of our own that outlives every scope. No expression seen so far has it.
  void define(const Expr& var, Interval range);
  void forget(const Expr& var) { vars_.erase(var.get()); }
  // form <= 0.
  void learn_not_positive(const Linear& form);
  // A boolean expression in canonical form is true, or false.
  void learn_fact(const Expr& condition, bool value);
  std::optional<bool> fact(const Expr& condition) const;

  Interval range_of(const Expr& var) const;
  // The one value that the variable has, where it is to be replaced by it.
  std::optional<int64_t> value_of(const Expr& var) const;
  Interval bounds(const Linear& form);
  // Bounds of an integer expression of any type, in canonical form.
  Interval bounds(const Expr& e);

  // Counts changes, so that others know when to forget what they derived.
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

  void changed();
  void set(const Expr& var, VarFact fact);
  void tighten_variables(const Linear& terms, int64_t limit);
  void tighten(const Expr& var, Interval range);

  Interval bounds_both_ways(const Linear& form);
  Interval atom_bounds(const Expr& atom);
  Interval binary_bounds(BinaryOp op, const Expr& a, const Expr& b);
  // The least upper bound found for `form`; each of the others looks at one way to a better one.
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
  bool symbolic_ = false;  // some variable has an end in terms of others
  uint64_t version_ = 0;
  int age_ = 0;
  bool asking_ = false;  // a question of bounds is running
  int effort_ = 0;       // refinements left in it
};

// All values of an integer type.
Interval values_of(ElemType elem);

}  // namespace tilewright::arith
