// Contractions on a GPU whose long sums are formed in parts, known as split-k.
#pragma once

#include "tuner/rules/rules.h"

namespace tilewright {

// Where a contraction has too few tiles of results for all multiprocessors and sums enough terms for
// each, the trial may take its sums into parts: blocks of their own form them in global memory, and
// a second kernel adds them up, always in the same order. Returns the block of the parts' sums, or the
// contraction itself. Before the contraction is scheduled otherwise.
Block gpu_split_terms(RuleContext& c, const Block& block);

}  // namespace tilewright
