// Which contractions an intrinsic of the target computes, and bringing their operands into its form.
#pragma once

#include <optional>

#include "codegen/intrinsics.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// A contraction whose last two iterators are those of an intrinsic: the lanes of its accumulator
// (spatial) and the terms that one lane sums (a reduction).
struct TensorTile {
  const Intrinsic* row;
  int tiles;  // the iterator over whole vectors of lanes
  int lanes;
  int terms;
};

// Asks whether to use the first of the target's intrinsics that fits. If so, brings the block into
// its form: operands padded to whole tiles, converted to its types and, the weight at load, laid out
// as it takes them. Nothing when no row of the target fits, or none is to be used.
std::optional<TensorTile> prepare_tensor(RuleContext& c, const Block& block);

}  // namespace tilewright
