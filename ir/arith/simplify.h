// Algebraic simplification of expressions and statements under facts about their variables.
#pragma once

#include <memory>

#include "ir/arith/interval.h"
#include "ir/stmt.h"

namespace tilewright {

// The known facts: a range for each variable, and conditions that hold. Not thread-safe.
class Analyzer {
 public:
  Analyzer();
  ~Analyzer();
  Analyzer(Analyzer&&) noexcept;
  Analyzer& operator=(Analyzer&&) noexcept;

  // var in [min, min + extent). Either may be symbolic: then its range is used, and its dependence
  // on other variables is remembered.
  void bind(const Expr& var, const Expr& min, const Expr& extent);
  void bind(const Expr& var, Interval range);
  // Like bind(), but a variable with a single value is not replaced by that value.
  void bind_kept(const Expr& var, const Expr& min, const Expr& extent);
  // Opens or closes a scope. The effects of `bind` and `assume` last until the scope closes.
  void push();
  void pop();
  void assume(const Expr& condition);

  // The same value in simpler form. Idempotent; returns the same node when nothing changes. Index
  // arithmetic becomes a canonical sum of products. Floors of sums that divide evenly are split,
  // and comparisons are decided from ranges. Float arithmetic is folded only where it is exact for
  // every input (x*1 is, x+0 is not).
  Expr simplify(const Expr& e);
  // True when proven, false when unknown or disproved.
  bool prove(const Expr& condition);
  // Bounds of an integer expression under the known facts.
  Interval bounds(const Expr& e);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Opens a scope of facts that lasts until the end of the C++ scope.
class KnowledgeScope {
 public:
  explicit KnowledgeScope(Analyzer& analyzer) : analyzer_(analyzer) { analyzer_.push(); }
  ~KnowledgeScope() { analyzer_.pop(); }
  KnowledgeScope(const KnowledgeScope&) = delete;
  KnowledgeScope& operator=(const KnowledgeScope&) = delete;

 private:
  Analyzer& analyzer_;
};

Expr simplify(const Expr& e);
// Simplifies every expression under the loops, block iterators, conditions and lets around it.
// Drops loops of no iteration and ifs whose condition is decided. The result is undefined when
// nothing is left.
//
// Variables of loops of extent 1 stay, so that bindings keep their form. With `drop_unit_loops`
// these loops go, except axes of threads and blocks, and the variable's only value replaces it.
Stmt simplify(const Stmt& s, bool drop_unit_loops = false);
// The same for a statement inside others, with the facts in `known`.
Stmt simplify(const Stmt& s, Analyzer& known, bool drop_unit_loops = false);
// The same under the ranges of the program's dimensions.
Program simplify(const Program& p, bool drop_unit_loops = false);

}  // namespace tilewright
