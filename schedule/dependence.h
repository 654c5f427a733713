// Dependence checks: whether the iterations of loops may run in another order, or in parallel.
#pragma once

#include <vector>

#include "ir/stmt.h"
#include "schedule/tree.h"

namespace tilewright {

// Refuses with Dependence unless the iterations of the loop at the end of `path` are independent.
// The loop carries no reduction of a block under it, different iterations write different elements,
// and no iteration reads an element that another one writes.
//
// With `may_privatize`, several iterations may write a buffer that is used only under this loop.
// Each iteration must read only what it wrote itself; then each one can have its own copy.
void require_independent(const Tree& tree, const Path& path, bool may_privatize);

// Refuses with Dependence unless the loops of the chain `loops` (outermost first) may run in any
// order. An iteration of all of them may read, of what is written under them, only what it wrote
// itself. Where one of them carries a block's reduction, no other block under them may read its
// result. None of them may merely repeat that block's iterations.
void require_permutable(const Tree& tree, const std::vector<Stmt>& loops);

// Refuses with Dependence unless `body` reads, of what the blocks under loop `earlier` write, only
// what the same iteration wrote and completed. `body` is the body of loop `later` in terms of the
// variable of `earlier`. `known` knows that variable.
void require_flow_in_step(const Tree& tree, const Stmt& earlier, const Stmt& later,
                          const Stmt& body, Analyzer& known);

// True when `region`, clipped to the buffer's shape, is proven to lie inside `cover`. `known` holds
// the ranges of the variables in both.
bool proves_inside(const BufferRegion& region, const BufferRegion& cover, Analyzer& known);

}  // namespace tilewright
