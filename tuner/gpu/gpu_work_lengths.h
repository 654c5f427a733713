// Replaces the lengths that a kernel reads by their maximum.
#pragma once

#include "ir/arith/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

// Replaces integers that masks compare indices with (`j < N[b]`: sequence lengths) in a lowered
// kernel. Each becomes the least number that lets all indices of some mask through, in loop bounds
// and conditions, too. The result has the work of the longest possible sequences. `known` has the
// dynamic dimensions.
Stmt with_longest_lengths(const Stmt& kernel, Analyzer& known);

}  // namespace tilewright
