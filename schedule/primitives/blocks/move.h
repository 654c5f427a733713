// Shared by compute_at and reverse_compute_at: finding the block and the loop, the conditions on
// both, and moving the block.
#pragma once

#include <string>
#include <vector>

#include "ir/arith/interval.h"
#include "schedule/primitive.h"
#include "schedule/tree.h"

namespace tilewright {

// A block that is to move under a loop. Construction checks the conditions that both directions
// share.
struct Move {
  Move(const Tree& tree, const std::string& block_name, const std::string& loop_name);

  Path block_path, loop_path;
  Stmt block, loop, scope;
  Buffer written;  // the only buffer that the block writes; no other block writes it

  const BlockNode& node() const { return *block.as<BlockNode>(); }
  const ForNode& target() const { return *loop.as<ForNode>(); }
  bool under_loop(const Stmt& other) const;
  // The statements in the body of the loop, in order.
  std::vector<Stmt> statements() const;
  // The facts known in the body of the loop.
  Analyzer analyzer(const Tree& tree) const;
  // The path to the body of the loop.
  Path inside() const;
  // The module with the block moved before the statement `position` of the loop's body, under loops
  // over `ranges` and the condition `guard`.
  Module moved(const Tree& tree, const Module& module, const std::vector<Range>& ranges,
               size_t position, const Expr& guard = {}) const;
};

}  // namespace tilewright
