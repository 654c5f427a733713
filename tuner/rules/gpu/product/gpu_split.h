// Split-K: contractions on a GPU whose long reductions are computed in parts.
#pragma once

#include "tuner/rules/rules.h"

namespace tilewright {

// Split-K, for a contraction with too few result tiles for all SMs and a long enough k. The trial
// chooses the number of parts. Blocks of their own compute the parts in global memory; a second
// kernel adds them, always in the same order. Returns the block of the partial sums, or the
// contraction itself. Must run before the contraction is scheduled otherwise.
Block gpu_split_terms(RuleContext& c, const Block& block);

}  // namespace tilewright
