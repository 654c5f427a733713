// Loop nests that primitives build around a block.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/interval.h"
#include "ir/simplify.h"
#include "ir/stmt.h"
#include "schedule/tree.h"

namespace tilewright {

// `block` under fresh serial loops, one an iterator and in their order, outermost first, called
// "<block>_ax0", "<block>_ax1", …: iterator d runs over ranges[d], given in terms of the variables
// that `analyzer` knows. A loop is made also for a range of one value, so that the number of loops
// does not depend on sizes. A range that is not provably within the iterator's extent gets a
// predicate; the block's own predicate must be a domain predicate (region.h), for it is replaced.
// `guard` is added to it, where it does not follow; it speaks of the variables around the nest.
// Ranges may be widened where their extent is not a constant, up to the whole domain.
Stmt make_nest(const BlockNode& block, std::vector<Range> ranges, Analyzer& analyzer, Names& names,
               const Expr& guard = {});

// The block `name` with `to[v0, v1, …] = fn(from[v0, v1, …])` over the shape of `from`; its bindings
// are for make_nest to set.
Stmt make_map_block(const std::string& name, const Buffer& from, const Buffer& to,
                    const std::function<Expr(const Expr&)>& fn);
// The same with the elements as they are.
Stmt make_copy_block(const std::string& name, const Buffer& from, const Buffer& to);

// The loops around the block at the end of `path`. Refuses one that is no longer in the form that
// lowering gives it: alone under serial loops, each of them one of its iterators (an iterator of one
// value may be bound to 0 instead). `action` is what was to be done to it before: "pad it".
std::vector<Stmt> require_lowered(const Tree& tree, const Path& path, const std::string& action);

// The whole iteration domain of a block.
std::vector<Range> full_ranges(const BlockNode& block);

}  // namespace tilewright
