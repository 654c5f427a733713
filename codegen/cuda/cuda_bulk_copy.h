// 1-D bulk copies: their elements are contiguous in global memory, in the order in which they are
// to lie in shared memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/arith/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

/// The range that one 1-D bulk copy (`cp.async.bulk`) brings. Its elements are contiguous, take a
/// multiple of 16 bytes, and begin at a multiple of 16 bytes in both memories.
struct Stretch {
  int64_t elements = 0;               ///< 0 where there is none
  std::vector<const ForNode*> along;  ///< the loops over them
  std::vector<const ForNode*>
      repeats;               ///< the others, outermost first: one more copy per iteration
  std::string problem = {};  ///< why there is none
};

/// The longest ranges in which the loops, outermost first, bring `from` to `to`, loads of an
/// operand and of an array of one type. The loops have constant extents, and `known` binds them.
Stretch find_stretch(const std::vector<const ForNode*>& loops, const LoadNode& from,
                     const LoadNode& to, Analyzer& known);

}  // namespace tilewright
