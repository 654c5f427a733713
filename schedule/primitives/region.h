// Which iterations of a block a region of a buffer asks for.
#pragma once

#include <optional>
#include <vector>

#include "ir/interval.h"
#include "ir/simplify.h"
#include "ir/stmt.h"
#include "schedule/tree.h"

namespace tilewright {

// The values of a variable for which an index falls into a range. `exact` when each value in
// `range` gives an index inside; else some of them give one outside.
struct Preimage {
  Range range;
  bool exact;
};

// Inverts `index` in `var`: understands v, v + c, c - v, v * c, floordiv(v, c) and their nestings,
// where c does not use the variables of `iters`. Nothing when `index` has another form.
std::optional<Preimage> preimage(const Expr& index, const Var& var,
                                 const std::vector<IterVar>& iters, const Range& range);

// True when `a` and `b` are provably the same range.
bool same_range(Analyzer& analyzer, const Range& a, const Range& b);
// True when `inner` lies in `outer`, provably.
bool contains(Analyzer& analyzer, const Range& outer, const Range& inner);
// True when `range` holds all of [0, extent), provably.
bool covers_extent(Analyzer& analyzer, const Range& range, const Expr& extent);

// True when the block's predicate holds wherever all bindings lie in the iterators' extents, as those
// that remainders of splits leave do; such a predicate may be dropped when the bindings are replaced.
// `analyzer` knows the loops around the block.
bool is_domain_predicate(Analyzer& analyzer, const BlockNode& block);

// The part of the block's predicate that is decided at `place`, a path to a statement around the
// block (or to what will stand beside such a statement): its conjuncts over the loops above. Where it
// fails the block does not run at all. Undefined when there is none.
Expr guard_at(const Path& place, const BlockNode& block);
// The same, and of its conjuncts over loops below the place what must hold there for any of their
// iterations to run: i*8 < 20 of i*8 + j < 20, where j is such a loop.
Expr necessary_at(const Tree& tree, const Path& place, const Path& block);
// Likewise in one run of `body`, which holds the block, in terms of the variables around `body`.
// `analyzer` knows these. `all` is set to whether nothing else is needed: false where a conjunct is
// left out because no iteration is known to be the one that it allows first. `also`: what holds besides
// the predicate, in terms of the loops.
Expr necessary_in(const Stmt& body, const BlockNode& block, Analyzer& analyzer, bool* all,
                  const Expr& also = {});
// True when the rest of the predicate says no more than is_domain_predicate() allows.
bool is_domain_predicate_at(const Tree& tree, const Path& place, const Path& block);

// The boxes of `buffer` that one run of `body` makes the block store, in terms of the variables
// around `body`, where every element of the box is stored if the block runs there at all
// (necessary_in(): a tile that is larger than its axis hangs over in whole); nothing when the stores
// may leave holes (a stride over an outer loop, part of a fused loop) or the block does not stand in
// `body`.
std::optional<Region> region_stored(const Stmt& body, const BlockNode& block, const Buffer& buffer,
                                    Analyzer& analyzer);

// Whether every element of the buffer has a value once its writers have run: it is a parameter that
// is no output, or one block stores all of it. The padding of a layout that is rounded up has no
// values, nor has what the iterators of a copy leave out: what computes with all elements of a
// buffer, or reads beyond those that were read before, asks for this first.
bool has_every_element(const Tree& tree, const Buffer& buffer);

}  // namespace tilewright
