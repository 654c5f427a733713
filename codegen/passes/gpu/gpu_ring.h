// Rings of buffers in shared memory: a pipelined loop fills one slot while it uses others.
#pragma once

#include "ir/stmt.h"
#include "ir/visitor.h"

namespace tilewright {

/// The buffer with `stages` slots, along a first dimension.
Buffer ring_of(const Buffer& buffer, int64_t stages);

/// `s` with all accesses to the buffers of `rings` in that slot of their ring.
Stmt in_slot(const BufferMap& rings, const Expr& slot, const Stmt& s);
/// The same for the copies of an iteration: a store that copies an element of global memory as it
/// is, or zero, becomes an asynchronous copy. The caller waits for it.
Stmt copied_to_slot(const BufferMap& rings, const Expr& slot, const Stmt& copies);

}  // namespace tilewright
