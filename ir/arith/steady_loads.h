// Loads from memory that are invariant in some loops.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "ir/arith/interval.h"
#include "ir/visitor.h"

namespace tilewright {

// Replaces loads of indices that some loops do not change (lengths of sequences) by variables.
// Range analysis knows only the type of a load, but it knows that `length - i` falls as i grows.
class SteadyLoads : public Mutator {
 public:
  // `keeps` is true for a buffer that nobody writes in these loops.
  SteadyLoads(const std::map<const ExprNode*, Range>& loops,
              std::function<bool(const Buffer&)> keeps)
      : loops_(loops), keeps_(std::move(keeps)) {}

  // Replaces the variables in `e` by the loads that they stand for.
  Expr restored(const Expr& e) const { return substitute(e, values_); }

 protected:
  Expr mutate_cast(const CastNode& n, const Expr& e) override;

 private:
  bool varies(const Expr& e) const;

  const std::map<const ExprNode*, Range>& loops_;
  std::function<bool(const Buffer&)> keeps_;
  std::vector<std::pair<Expr, Var>> named_;
  VarMap values_;
};

}  // namespace tilewright
