// Lengths that a kernel reads, at their longest.
#pragma once

#include "ir/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

// A lowered kernel in which integers that masks compare indices with (`j < N[b]`: the lengths of
// sequences) are the least numbers by which all indices of some mask are let through, wherever loops and
// conditions read them: the work of sequences that are as long as may be. `known` has the dynamic dimensions.
Stmt with_longest_lengths(const Stmt& kernel, Analyzer& known);

}  // namespace tilewright
