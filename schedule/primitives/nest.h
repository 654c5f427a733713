// Construction of loop nests around a block.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/arith/interval.h"
#include "ir/arith/simplify.h"
#include "ir/stmt.h"
#include "schedule/tree.h"

namespace tilewright {

// `block` under fresh serial loops, one per iterator and in their order, outermost first, called
// "<block>_ax0", "<block>_ax1", …. Iterator d runs over ranges[d], given in terms of the variables
// that `analyzer` knows. A range of one value gets a loop too, so the number of loops does not
// depend on sizes. Ranges may be widened where their extent is not a constant, up to the whole
// domain.
//
// A range that is not provably within the iterator's extent gets a predicate. It replaces the
// block's own predicate, which must be a domain predicate (region.h). `guard` is added where it
// does not follow; it refers to the variables around the nest.
Stmt make_nest(const BlockNode& block, std::vector<Range> ranges, Analyzer& analyzer, Names& names,
               const Expr& guard = {});

// The block `name` with `to[v0, v1, …] = fn(from[v0, v1, …])` over the shape of `from`. make_nest()
// sets its bindings.
Stmt make_map_block(const std::string& name, const Buffer& from, const Buffer& to,
                    const std::function<Expr(const Expr&)>& fn);
// The same, with the elements unchanged.
Stmt make_copy_block(const std::string& name, const Buffer& from, const Buffer& to);

// The loops around the block at the end of `path`. Refuses a block that no longer has the form that
// lowering gives it: alone under serial loops, each of which is one of its iterators. An iterator
// of one value may be bound to 0 instead. `action` names what had to be done earlier, such as "pad
// it".
std::vector<Stmt> require_lowered(const Tree& tree, const Path& path, const std::string& action);

// The whole iteration domain of a block.
std::vector<Range> full_ranges(const BlockNode& block);

}  // namespace tilewright
