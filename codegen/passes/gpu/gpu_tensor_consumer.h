// The code of a kernel's threads that compute, beside a ring of stages and TMA stores.
#pragma once

#include "codegen/passes/gpu/gpu_tensor_ring.h"
#include "ir/arith/simplify.h"
#include "ir/visitor.h"

namespace tilewright {

// The TMA stores of a kernel. A loop of them may have a ring of arrays: threads write one while
// stores of earlier iterations still read others.
struct TensorStores {
  bool any = false;
  const ForNode* loop = nullptr;
  int64_t stages = 1, of_iteration = 0;
  BufferMap rings = {};
};

// `body`, the code of `threads` computing threads, with waits for the stages of its ring and TMA
// stores by one thread. `ring` is null where there are no TMA loads. With several teams, which have
// so many threads each, arrays of `own` are each team's own.
Stmt consumer_of(const Ring* ring, const TensorStores& stores, const Var& thread, int64_t threads,
                 const Stmt& body, Analyzer& known, const BufferMap& own = {});

}  // namespace tilewright
