// The rules from which sketches are generated for any tensor expression (after Zheng et al.,
// "Ansor", OSDI 2020, section 4.1, with prepacked weights and accumulators in registers added).
#pragma once

#include <optional>
#include <string>

#include "tuner/sketch.h"

namespace tilewright {

// What all rules are given.
struct RuleContext {
  Schedule& s;
  Trial& t;
  const SketchInput& input;
};

// Inlines injective stages into their consumers, where that is free or the trial says so.
void inline_stages(RuleContext& c);

// Multi-level tiling of a contraction in the order S S R S R S, with the innermost spatial level
// in vector registers; packs its weights in the order of the loops, places its injective producers
// and fuses its elementwise consumer.
void tile_contraction(RuleContext& c, const Block& block);

// Takes the long reduction of a contraction with few results into parts, where the trial says so:
// sums of their own that run side by side, and are added up in order at the end. Returns the block
// of the parts' sums, or the contraction itself.
Block split_contraction(RuleContext& c, const Block& block);

// Leaves the elements of an N:M sparse weight out that are worth nothing, where the trial says so.
// Before the contraction is tiled: it runs over fewer iterations. Returns the parameters that hold
// what is left and where it stood, or nothing when the weight stays as it is.
struct KeptWeight {
  std::string values, rows;
};
std::optional<KeptWeight> compress_weight(RuleContext& c, const Block& block);

// A reduction along rows: partial results in vector lanes, and over threads when there are few
// rows.
void split_row_reduction(RuleContext& c, const Block& block);

// Parallel over the outer iterators, vector instructions along the innermost one.
void schedule_injective(RuleContext& c, const Block& block);

// The same for groups along the last dimension: vectors of which no one reaches into the next group.
void schedule_groups(RuleContext& c, const Block& block);

// Fuses a chain of row reductions and injective stages over common rows (softmax, norms): all of
// a row is computed while it is in cache. False when the program is no such chain.
bool fuse_rows(RuleContext& c);

// Two contractions with a softmax between them (attention): for a tile of queries, one loop over
// blocks of keys with the maximum and the sums so far, where the trial says so. Scores lie across,
// with a query a vector lane, so that neither maximum nor sum is taken across lanes. False when the
// program is something else, or queries are too few to fill a vector.
bool fuse_attention(RuleContext& c);

// Fuses the leading loops up to `count` into one parallel loop.
Loop parallel_over(RuleContext& c, const std::vector<Loop>& loops);

// Vectorizes the innermost loop in pieces of whole vectors: split by lanes times `vectors`. Of a
// dynamic loop the last piece is masked.
void vectorize_innermost(RuleContext& c, const Block& block, int64_t vectors);

}  // namespace tilewright
