// Shared by the primitives that change layouts: checked maps, and accesses rewritten through them.
#pragma once

#include <string>
#include <vector>

#include "ir/arith/index_map.h"
#include "ir/stmt.h"
#include "schedule/tree.h"

namespace tilewright {

// A map that was checked to be a bijection from a box onto its (padded) image.
struct Bijection {
  std::vector<Expr> image;  // extents
  IndexMap inverse;
};

// Refuses a map whose number of inputs differs from the rank of `shape`, or that cannot be
// inverted. `what` names the object in the message: "buffer 'B'".
Bijection require_bijection(const Tree& tree, const IndexMap& map, const std::vector<Expr>& shape,
                            const std::string& what, std::vector<Stmt> where = {});

// Refuses when an access of `buffer` is predicated or has vector indices.
void require_plain_accesses(const Tree& tree, const Buffer& buffer);

// The program's body with accesses of `from` redirected to `to` through `map`. The new indices are
// simplified over the extents of the blocks' iterators.
Stmt relaid(const Program& program, const Buffer& from, const Buffer& to, const IndexMap& map);

// The conditions under which the results of `inverse` lie within `shape`, except those that `known`
// proves; undefined when there is none.
Expr inside_condition(const std::vector<Expr>& logical, const std::vector<Expr>& shape,
                      Analyzer& known);

}  // namespace tilewright
