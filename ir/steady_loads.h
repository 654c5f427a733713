// Elements of memory that are the same in all iterations of some loops.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "ir/interval.h"
#include "ir/visitor.h"

namespace tilewright {

// Indices that are read at one place whatever some loops do (lengths of sequences), as variables: ranges
// know no more of a load than its type, but of `length - i` that it falls with i.
class SteadyLoads : public Mutator {
 public:
  // `keeps` says of a buffer whether nobody writes it meanwhile.
  SteadyLoads(const std::map<const ExprNode*, Range>& loops,
              std::function<bool(const Buffer&)> keeps)
      : loops_(loops), keeps_(std::move(keeps)) {}

  // An expression of such variables as one of what they stand for.
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
