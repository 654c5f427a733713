// The nests of a softmax: a row maximum, and the blocks weighted with exp(x - maximum).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/visitor.h"
#include "schedule/primitives/softmax/softmax_weights.h"
#include "schedule/tree.h"

namespace tilewright {

// A nest for a new block over the spatial iterators of another nest, whose loops and iterators are
// renamed.
struct SpatialCopy {
  std::vector<Stmt> loops;
  std::vector<IterVar> iters;
  Expr predicate;
  VarMap renamed;  // keyed by the iterators of the other block

  Expr at(const Expr& e) const { return substitute(e, renamed); }
  std::vector<Expr> at(const std::vector<Expr>& list) const {
    std::vector<Expr> result;
    for (const Expr& e : list) result.push_back(at(e));
    return result;
  }
};

// Base class of rewriters: the nests of a sequence that primitives on a softmax rewrite together.
// The constructor finds them and refuses other programs.
class SoftmaxNests {
 protected:
  // `block` takes the maximum.
  SoftmaxNests(std::string_view primitive, const Program& program, std::string block);

  // The sequence without the members' nests, with `nests` in place of the last one.
  Stmt replaced_members(const std::vector<Stmt>& nests) const;
  // A copy over all loops of the nest except `key_loop`.
  SpatialCopy spatial_copy(const LoneNest& nest, const ForNode* key_loop);

  Tree tree_;
  std::string block_;
  Names names_;
  Path path_, seq_path_;  // to the block, and to the sequence that contains its nest
  RowMaximum maximum_;
  std::vector<Weighed> weighed_;  // in program order

 private:
  LoneNest find_sequence();
  void find_maximum();
  void require_plain_rows(const BlockNode& block) const;
  const std::vector<Stmt>& siblings() const { return seq_path_.back().as<SeqNode>()->stmts; }
  // Finds the blocks after the maximum that depend on the weights. Checks that they need nothing
  // from other blocks that is made of weights.
  void find_weighed();
  // A block that stays before the loop must not stand between the weights and `found`. It must not
  // write anything that the blocks before it read.
  void require_no_detour(const std::vector<Stmt>& outside, const Weighed& found) const;
  // Intermediate values no longer cover the whole axis, so nobody else may write them or read
  // weights.
  void require_private() const;
};

}  // namespace tilewright
