// The verifier's facts about the loops around a block, and the rules for a block's bindings.
// Internal to ir/verify.cc.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/arith/interval.h"
#include "ir/stmt.h"

namespace tilewright::verify_detail {

// A loop, or an iterator of an enclosing block, which runs over its extent like a loop.
struct Loop {
  Var var;
  Expr min, extent;
  ForKind kind;
  // Both ends of this interval are certainly taken, whatever the other variables are; if known.
  std::optional<Interval> reached;

  static Loop of(const ForNode& n);
};

// The place of a statement: the iterators of the enclosing blocks, and the loops inside the
// innermost of these blocks.
struct BlockSite {
  std::vector<Loop> iters;
  std::vector<Loop> loops;
  std::map<const ExprNode*, Expr> bindings;  // bindings of `iters`

  // The site of the body of `n`, for a block `n` at this site.
  BlockSite inside(const BlockNode& n) const;
  // True when `e` depends on `var`, directly or through iterators of enclosing blocks.
  bool depends_on(const Expr& e, const Var& var) const;
};

// Index expressions that are sums of variables times constants.
class LinearIndex {
 public:
  explicit LinearIndex(const BlockSite& site) : site_(site) {}
  // The interval of `e`, both ends of which `e` reaches. Defined only for a sum in which each
  // variable stands once and has a known reach.
  std::optional<Interval> range(const Expr& e) const;

 private:
  const BlockSite& site_;
};

// Messages for the violations among the bindings of `block` at `site`, as far as they can be
// decided. `guarded`: the block is under a condition.
std::vector<std::string> check_bindings(const BlockNode& block, const BlockSite& site,
                                        bool guarded);

}  // namespace tilewright::verify_detail
