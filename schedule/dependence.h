// Whether the iterations of loops may be carried out in another order, or at once.
#pragma once

#include <vector>

#include "ir/stmt.h"
#include "schedule/tree.h"

namespace tilewright {

// Refuses with Dependence unless the iterations of the loop at the end of `path` are independent:
// it carries no reduction of a block under it, different iterations write different elements, and
// an iteration reads no element that another one writes. A buffer that is used under this loop
// alone, and of which each iteration reads only what itself wrote, may be written by several
// iterations when `may_privatize`: each one can have its own copy.
void require_independent(const Tree& tree, const Path& path, bool may_privatize);

// Refuses with Dependence unless the loops of a chain, `loops`, outermost first, may run in any
// order: of what is written under them, an iteration of all of them reads only what itself wrote;
// and where one of them carries a block's reduction, no other block under them reads its result,
// and none of them merely repeats that block's iterations.
void require_permutable(const Tree& tree, const std::vector<Stmt>& loops);

// Refuses with Dependence unless, of what the blocks under loop `earlier` write, `body` (the body of
// loop `later` in terms of the variable of `earlier`) reads only what the same iteration wrote, and
// that is complete by then. `known` knows that variable.
void require_flow_in_step(const Tree& tree, const Stmt& earlier, const Stmt& later,
                          const Stmt& body, Analyzer& known);

// Whether `region`, clipped to the buffer's shape, is proven to lie inside `cover`.
// `known` holds the ranges of the variables in both.
bool proves_inside(const BufferRegion& region, const BufferRegion& cover, Analyzer& known);

}  // namespace tilewright
