// Blocks of one store, in the form that inlining uses.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/arith/simplify.h"
#include "ir/visitor.h"
#include "schedule/tree.h"

namespace tilewright {

// A leaf block of one unconditional store, with no reduction. `find` and `of` refuse other blocks.
struct Pointwise {
  Path path;
  const BlockNode* block;
  const StoreNode* store;

  static Pointwise find(const Tree& tree, const std::string& name);
  static Pointwise of(const Tree& tree, const Stmt& block);
  const Stmt& stmt() const { return path.back(); }
};

// The unconditional load that this is, directly or under one cast; else null.
const LoadNode* element_of(const Expr& e);

// Matches `indices` to the block's iterators, each used at most once. A 0 along a dimension of
// extent 1 and iterators of extent 1 that no index names are allowed. The result maps each iterator
// to the dimension that it indexes (-1: none). Nothing for other indices.
std::optional<std::vector<int>> iterators_of(const BlockNode& block,
                                             const std::vector<Expr>& indices,
                                             const std::vector<Expr>& shape);

// A substitution that maps each iterator of the block to the index of its dimension in `at`.
VarMap iterators_at(const BlockNode& block, const std::vector<int>& dims,
                    const std::vector<Expr>& at);

// Refuses when `buffer` is a parameter of the program.
void require_intermediate(const Tree& tree, const Buffer& buffer, const std::string& what,
                          const std::vector<Stmt>& where = {});

// Refuses when a block other than `block` writes `buffer`, the buffer of `block`.
void require_only_writer(const Tree& tree, const Stmt& block, const Buffer& buffer);

// The ranges of the program's dimensions and of the block's iterators.
Analyzer known_in(const Tree& tree, const BlockNode& block);

// The body and init of a leaf block, simplified over the extents of its iterators.
Stmt simplify_body(const Tree& tree, const BlockNode& block);

// The program without the allocation of `buffer`.
Program without_buffer(const Program& program, const Buffer& buffer);

}  // namespace tilewright
