// Copies whose elements lie side by side in memory as they are to lie in shared memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

/// What one bulk copy (`cp.async.bulk`) brings: neighbouring elements, of a multiple of 16 bytes, from a
/// multiple of 16 bytes on in both memories.
struct Stretch {
  int64_t elements = 0;               ///< 0 where there is none
  std::vector<const ForNode*> along;  ///< the loops over them
  std::vector<const ForNode*>
      repeats;               ///< the others, outermost first: each iteration another copy
  std::string problem = {};  ///< why there is none
};

/// The longest stretches in which the loops, outermost first, bring `from` to `to`, loads of an operand
/// and of an array of one type. The loops have constant extents, and `known` binds them.
Stretch find_stretch(const std::vector<const ForNode*>& loops, const LoadNode& from,
                     const LoadNode& to, Analyzer& known);

}  // namespace tilewright
