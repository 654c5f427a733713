// Checks that a block's init still precedes its updates when loops are reordered.
#pragma once

#include <vector>

#include "ir/stmt.h"
#include "schedule/tree.h"

namespace tilewright {

// A block's init runs where all reduce iterators are 0, which must be the first iteration of each
// element. Loops that carry only spatial or only reduce iterators keep this in any order. A fused
// loop may carry both. An element's first iteration then depends on the order of the loops that
// share a binding or a condition with it.
//
// Refuses with Dependence when `order` changes the order of those loops. `order` holds the loops of
// the chain `loops` in their new order.
void require_init_first(const Tree& tree, const std::vector<Stmt>& loops,
                        const std::vector<Stmt>& order);

}  // namespace tilewright
