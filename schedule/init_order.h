// Whether a block's init still comes before its updates when loops change places.
#pragma once

#include <vector>

#include "ir/stmt.h"
#include "schedule/tree.h"

namespace tilewright {

// A block's init runs where all reduce iterators are 0, which must be the first iteration of each
// element. Loops that carry spatial or reduce iterators alone keep it so in any order. A loop that
// carries both (fused of them) makes the first iteration of an element depend on the order of the
// loops that share a binding or a condition with it. Refuses with Dependence when `order` (the
// loops of the chain `loops`, in the order that they are to have) changes the order of those.
void require_init_first(const Tree& tree, const std::vector<Stmt>& loops,
                        const std::vector<Stmt>& order);

}  // namespace tilewright
