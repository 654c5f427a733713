// A softmax's nests: a row maximum, and what is weighed with exp(x - maximum).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/visitor.h"
#include "schedule/primitives/softmax_weights.h"
#include "schedule/tree.h"

namespace tilewright {

// A nest over the spatial iterators of another one, with a block of its own: the loops and iterators
// of the other renamed.
struct SpatialCopy {
  std::vector<Stmt> loops;
  std::vector<IterVar> iters;
  Expr predicate;
  VarMap renamed;  // iterators of the other block

  Expr at(const Expr& e) const { return substitute(e, renamed); }
  std::vector<Expr> at(const std::vector<Expr>& list) const {
    std::vector<Expr> result;
    for (const Expr& e : list) result.push_back(at(e));
    return result;
  }
};

// The nests of a sequence that primitives on a softmax rewrite together. Found by the constructor, which
// refuses other programs; what a rewriter derives from.
class SoftmaxNests {
 protected:
  // `block` takes the maximum.
  SoftmaxNests(std::string_view primitive, const Program& program, std::string block);

  // The sequence with the members' nests taken out, and `nests` in the place of the last one.
  Stmt replaced_members(const std::vector<Stmt>& nests) const;
  // Over all loops of the nest but `key_loop`.
  SpatialCopy spatial_copy(const LoneNest& nest, const ForNode* key_loop);

  Tree tree_;
  std::string block_;
  Names names_;
  Path path_, seq_path_;  // to the block, and to the sequence that its nest stands in
  RowMaximum maximum_;
  std::vector<Weighed> weighed_;  // in program order

 private:
  LoneNest find_sequence();
  void find_maximum();
  void require_plain_rows(const BlockNode& block) const;
  const std::vector<Stmt>& siblings() const { return seq_path_.back().as<SeqNode>()->stmts; }
  // The blocks behind the maximum that follow the weights, and of the others that these do not need
  // anything which is made of weights.
  void find_weighed();
  // What stays in front of the loop must neither stand between the weights and `found` nor write what
  // those before it read.
  void require_no_detour(const std::vector<Stmt>& outside, const Weighed& found) const;
  // Values in between are no longer those of the whole axis: nobody else may write them, nor read
  // weights.
  void require_private() const;
};

}  // namespace tilewright
