// The rules that generate sketches for any tensor expression, after Zheng et al., "Ansor", OSDI
// 2020, section 4.1. Prepacked weights and accumulators in registers are added.
#pragma once

#include <optional>
#include <string>

#include "tuner/sketch.h"

namespace tilewright {

// The arguments of all rules.
struct RuleContext {
  Schedule& s;
  Trial& t;
  const SketchInput& input;
};

// Inlines injective stages into their consumers where that is free or the trial chooses it.
void inline_stages(RuleContext& c);

// Multi-level tiling of a contraction in the order S S R S R S, with the innermost spatial level in
// vector registers. Packs its weights in loop order, places its injective producers and fuses its
// elementwise epilogue.
void tile_contraction(RuleContext& c, const Block& block);

// Has the loops of large weights that are used a few times fetch them ahead, if the trial chooses so. Comes after
// contractions are tiled.
void fetch_weights_ahead(RuleContext& c);

// Split-K: cuts the long reduction of a contraction with few results into parallel parts, if the
// trial chooses so. The parts are added in order at the end. Returns the block of the parts' sums,
// or the contraction itself.
Block split_contraction(RuleContext& c, const Block& block);

// Leaves out the zeros of an N:M sparse weight, if the trial chooses so. Must run before the
// contraction is tiled, which then has fewer iterations. Returns the parameters with the kept
// elements and their positions, or nothing if the weight stays as it is.
struct KeptWeight {
  std::string values, rows;
};
std::optional<KeptWeight> compress_weight(RuleContext& c, const Block& block);

// A reduction along rows: partial results in vector lanes, and over threads if there are few rows.
void split_row_reduction(RuleContext& c, const Block& block);

// Parallel over the outer iterators, vectorized along the innermost one.
void schedule_injective(RuleContext& c, const Block& block);
// The same of a copy that is about to be stored by this layout. No vector crosses a place where the layout parts
// its axis: each of its elements would need divisions of its own.
void schedule_copy(RuleContext& c, const Block& copy, const IndexMap& layout);

// The same for groups along the last dimension: no vector reaches into the next group.
void schedule_groups(RuleContext& c, const Block& block);

// Fuses a chain of row reductions and injective stages over common rows (softmax, norms): all of a
// row is computed while it is in cache. Returns false if the program is not such a chain.
bool fuse_rows(RuleContext& c);

// Attention: for a tile of queries, one loop over blocks of keys with the running maximum and sums,
// if the trial chooses so. Scores are transposed, with one query per vector lane, so that maximum
// and sum are never taken across lanes. Returns false for other programs, or if the queries do not
// fill a vector.
bool fuse_attention(RuleContext& c);

// Fuses the loops into one parallel loop.
Loop parallel_over(RuleContext& c, const std::vector<Loop>& loops);

// Vectorizes the innermost loop in pieces of `vectors` whole vectors. The last piece of a dynamic
// loop is masked.
void vectorize_innermost(RuleContext& c, const Block& block, int64_t vectors);

}  // namespace tilewright
