// The iterations of a block that a region of a buffer requires.
#pragma once

#include <optional>
#include <vector>

#include "ir/arith/interval.h"
#include "ir/arith/simplify.h"
#include "ir/stmt.h"
#include "schedule/tree.h"

namespace tilewright {

// The values of a variable for which an index falls into a range. `exact` is true when each value
// in `range` gives an index inside; otherwise some of them give one outside.
struct Preimage {
  Range range;
  bool exact;
};

// Inverts `index` in `var`. Supports v, v + c, c - v, v * c, floordiv(v, c) and their nestings. c
// may not use the variables of `iters`. Nothing when `index` has another form.
std::optional<Preimage> preimage(const Expr& index, const Var& var,
                                 const std::vector<IterVar>& iters, const Range& range);

// True when `a` and `b` are provably the same range.
bool same_range(Analyzer& analyzer, const Range& a, const Range& b);
// True when `inner` provably lies in `outer`.
bool contains(Analyzer& analyzer, const Range& outer, const Range& inner);
// True when `range` provably covers [0, extent).
bool covers_extent(Analyzer& analyzer, const Range& range, const Expr& extent);

// True when the block's predicate holds wherever all bindings lie in the iterators' extents, as
// predicates from remainders of splits do. Such a predicate may be dropped when the bindings are
// replaced. `analyzer` knows the loops around the block.
bool is_domain_predicate(Analyzer& analyzer, const BlockNode& block);

// The part of the block's predicate that is decided at `place`: its conjuncts over the loops above.
// Where it fails, the block does not run at all. `place` is a path to a statement around the block,
// or to a new statement beside such a one. Undefined when there is none.
Expr guard_at(const Path& place, const BlockNode& block);
// Like guard_at(), with conditions derived from conjuncts over loops below the place. They must
// hold for any of these loops' iterations to run. Example: i*8 < 20 for i*8 + j < 20, where j is
// such a loop.
Expr necessary_at(const Tree& tree, const Path& place, const Path& block);
// Like necessary_at(), for one run of `body`, which holds the block, in terms of the variables
// around `body`. `analyzer` knows these variables. `also` is a further condition besides the
// predicate, in terms of the loops.
//
// `all` tells whether the result is complete. It is false where a conjunct is omitted because no
// iteration is known to be the first that it allows.
Expr necessary_in(const Stmt& body, const BlockNode& block, Analyzer& analyzer, bool* all,
                  const Expr& also = {});
// True when the rest of the predicate states only what is_domain_predicate() allows.
bool is_domain_predicate_at(const Tree& tree, const Path& place, const Path& block);

// The box of `buffer` that the block stores in one run of `body`, in terms of the variables around
// `body`. Every element of the box is stored if the block runs there at all; see necessary_in() for
// a tile that is larger than its axis. Nothing when the block is not in `body`. Nothing when its
// stores may leave holes (a stride over an outer loop, part of a fused loop).
std::optional<Region> region_stored(const Stmt& body, const BlockNode& block, const Buffer& buffer,
                                    Analyzer& analyzer);

// True when every element of the buffer has a value after its writers have run. The buffer is a
// parameter that is no output, or one block stores all of it. The padding of a rounded-up layout
// has no values, and neither have elements that the iterators of a copy leave out. Primitives check
// this before they compute with all elements of a buffer, or read elements that were not read
// before.
bool has_every_element(const Tree& tree, const Buffer& buffer);

}  // namespace tilewright
