// Calls of generated functions that show whether these stay in their stack frames.
#pragma once

#include <cstdint>

namespace tilewright {

// The status that a generated function returned, and whether it left its caller's registers and
// stack alone.
struct GuardedResult {
  int32_t status = 0;
  bool frame_kept = true;
};

// Calls `function` with up to four integer or pointer arguments of the C calling convention. The
// registers that it has to preserve hold a pattern meanwhile, and so do the 4 KiB of stack before its
// frame. A store behind a local array reaches one of these unless another local stands there. On
// processors other than x86-64 this is a plain call, and frame_kept is true.
GuardedResult guarded_call(void* function, uint64_t a, uint64_t b, uint64_t c, uint64_t d);

}  // namespace tilewright
