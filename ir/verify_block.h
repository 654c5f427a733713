// What the verifier knows of the loops around a block, and the rules of a block's bindings. Internal
// to ir/verify.cc.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/interval.h"
#include "ir/stmt.h"

namespace tilewright::verify_detail {

// A loop, or an iterator of a block around, which runs over its extent like a loop.
struct Loop {
  Var var;
  Expr min, extent;
  ForKind kind;
  // The values between two that it surely takes, whatever values the others take; if it is known.
  std::optional<Interval> reached;

  static Loop of(const ForNode& n);
};

// Where a statement stands: the iterators of the blocks around it, and the loops inside the
// innermost of those blocks.
struct BlockSite {
  std::vector<Loop> iters;
  std::vector<Loop> loops;
  std::map<const ExprNode*, Expr> bindings;  // of `iters`

  // The site of the body of `n`, which stands here.
  BlockSite inside(const BlockNode& n) const;
  // Whether `e` speaks of `var`, also by way of the iterators of the blocks around.
  bool depends_on(const Expr& e, const Var& var) const;
};

// Index expressions that are sums of variables times constants.
class LinearIndex {
 public:
  explicit LinearIndex(const BlockSite& site) : site_(site) {}
  // The values that `e` takes, both ends of which it reaches: only for a sum in which each variable
  // stands once and has a known reach. Undefined otherwise.
  std::optional<Interval> range(const Expr& e) const;

 private:
  const BlockSite& site_;
};

// What is wrong with the bindings of `block` at `site`, as far as it can be decided. `guarded`: the
// block stands under a condition.
std::vector<std::string> check_bindings(const BlockNode& block, const BlockSite& site,
                                        bool guarded);

}  // namespace tilewright::verify_detail
