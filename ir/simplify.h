// Algebraic simplification of expressions and statements, with what is known of their variables.
#pragma once

#include <memory>

#include "ir/interval.h"
#include "ir/stmt.h"

namespace tilewright {

// What is known: a range for each variable, and conditions that hold. One thread at a time.
class Analyzer {
 public:
  Analyzer();
  ~Analyzer();
  Analyzer(Analyzer&&) noexcept;
  Analyzer& operator=(Analyzer&&) noexcept;

  // var in [min, min + extent); either may be symbolic: then their ranges are used, and how they
  // depend on other variables is remembered.
  void bind(const Expr& var, const Expr& min, const Expr& extent);
  void bind(const Expr& var, Interval range);
  // Like bind, but where the variable has one value only, it stays in expressions all the same.
  void bind_kept(const Expr& var, const Expr& min, const Expr& extent);
  // Opens/closes a scope of knowledge. `bind` and `assume` hold until the scope closes.
  void push();
  void pop();
  void assume(const Expr& condition);

  // The same value in simpler form. Idempotent; comes back as the same node when nothing changes.
  // Index arithmetic is put into a canonical sum of products; floors of sums that divide evenly
  // are split; comparisons are decided from ranges. Float arithmetic is folded only where it is
  // exact for every input (x*1 is, x+0 is not).
  Expr simplify(const Expr& e);
  // True when proven, false when unknown or disproved.
  bool prove(const Expr& condition);
  // Bounds of an integer expression over what is known.
  Interval bounds(const Expr& e);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Knowledge from here to the end of the C++ scope.
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
// Simplifies every expression under the loops, block iterators, conditions and lets around it;
// drops loops of no iteration and ifs whose condition is decided. Variables of loops of extent 1
// stay, so that bindings keep their form, unless `drop_unit_loops`: then those loops go (axes of
// threads and blocks excepted) and their variables become their only value. Undefined when nothing
// is left.
Stmt simplify(const Stmt& s, bool drop_unit_loops = false);
// The same for a statement inside others, about which `known` knows.
Stmt simplify(const Stmt& s, Analyzer& known, bool drop_unit_loops = false);
// The same under the ranges of the program's dimensions.
Program simplify(const Program& p, bool drop_unit_loops = false);

}  // namespace tilewright
