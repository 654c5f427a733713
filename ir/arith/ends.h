// The ends of what an index takes while inner variables run, in terms of the outer ones.
#pragma once

#include <optional>
#include <set>

#include "ir/arith/knowledge.h"
#include "ir/arith/rewriter.h"

namespace tilewright::arith {

// Both included.
struct Ends {
  Linear low, high;
};

// Inner variables are those bound here; all others are outer and keep their names.
class EndFinder {
 public:
  EndFinder() : rewriter_(&known_) {}

  void push();
  void pop();
  // An inner variable over [min, min + extent), whose ends may speak of variables bound before.
  void bind(const Expr& var, const Expr& min, const Expr& extent);

  // Nothing where an end cannot be told.
  std::optional<Ends> ends(const Expr& index);
  // The hull of two; nothing when its ends cannot be told apart from the outer variables.
  std::optional<Ends> unite(const Ends& a, const Ends& b);
  // high - low + 1: a constant, if need be rounded up to the most it can be over all values of the
  // outer variables; symbolic when that has no bound.
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
