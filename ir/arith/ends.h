// The ends of an index's range while inner variables run, as functions of the outer variables.
#pragma once

#include <optional>
#include <set>

#include "ir/arith/knowledge.h"
#include "ir/arith/rewriter.h"

namespace tilewright::arith {

// Both ends are included.
struct Ends {
  Linear low, high;
};

// Inner variables are those bound here; all others are outer and stay as they are.
class EndFinder {
 public:
  EndFinder() : rewriter_(&known_) {}

  void push();
  void pop();
  // Binds an inner variable over [min, min + extent). Its ends may refer to variables bound before.
  void bind(const Expr& var, const Expr& min, const Expr& extent);

  // Nothing where an end is unknown.
  std::optional<Ends> ends(const Expr& index);
  // The hull of two; nothing when their order depends on the outer variables in an unknown way.
  std::optional<Ends> unite(const Ends& a, const Ends& b);
  // high - low + 1: a constant, rounded up if need be to its maximum over all values of the outer
  // variables. Symbolic when that has no bound.
  Linear extent(const Ends& ends);
  bool proves_not_negative(const Linear& form) { return known_.bounds(form).min >= 0; }

 private:
  struct Bound {
    Expr var;
    Linear low, high;
  };
  enum class Side { Low, High };
  static Side opposite(Side side) { return side == Side::Low ? Side::High : Side::Low; }

  std::optional<Linear> end(Linear form, Side side);
  std::optional<Linear> end_of_atom(const Expr& atom, Side side);
  std::optional<Linear> end_of_product(const Expr& atom, Side side);
  std::optional<Linear> end_of_mod(const DivMod& mod, Side side);
  std::optional<Linear> end_of_choice(const Expr& a, const Expr& b, BinaryOp op, Side side);
  std::optional<Linear> end_by_number(const Expr& atom, Side side);
  const Bound* bound_of(const Expr& e) const;
  bool varies(const Expr& e) const;

  Knowledge known_;
  Rewriter rewriter_;
  std::vector<Bound> inner_;  // outermost first
  std::vector<size_t> scopes_;
};

}  // namespace tilewright::arith
