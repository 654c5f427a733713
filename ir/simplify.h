// Algebraic simplification of expressions and statements, with what is known of their variables.
#pragma once

#include <map>

#include "ir/interval.h"
#include "ir/stmt.h"

namespace tilewright {

// What is known: a range for each variable, and conditions that hold.
class Analyzer {
 public:
  // var in [min, min + extent); extent may be symbolic, then its range is used.
  void bind(const Expr& var, const Expr& min, const Expr& extent);
  void bind(const Expr& var, Interval range);
  // Opens/closes a scope of knowledge. `assume` adds a condition that holds until the scope closes.
  void push();
  void pop();
  void assume(const Expr& condition);

  // The same value in simpler form. Idempotent; comes back as the same node when nothing changes.
  // Index arithmetic is put into a canonical sum of products; floors of sums that divide evenly
  // are split; comparisons are decided from ranges. Float arithmetic is folded only where it is
  // exact for every input (x*1, x+0 is not).
  Expr simplify(const Expr& e);
  // True when proven, false when unknown or disproved.
  bool prove(const Expr& condition);
  // Bounds of an index expression over what is known.
  Interval bounds(const Expr& e);

 private:
  std::map<const ExprNode*, std::vector<Interval>> ranges_;
  std::vector<std::vector<Expr>> assumptions_{1};
  std::vector<std::vector<const ExprNode*>> bound_{1};
};

Expr simplify(const Expr& e);
// Simplifies every expression under the loops around it; drops loops of no iteration, ifs whose
// condition is decided, and loops of extent 1 when `drop_unit_loops`.
Stmt simplify(const Stmt& s, bool drop_unit_loops = false);
// The same for a statement inside others, about which `known` knows.
Stmt simplify(const Stmt& s, Analyzer& known, bool drop_unit_loops = false);

}  // namespace tilewright
