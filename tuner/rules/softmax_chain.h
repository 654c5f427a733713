// Attention: two contractions with a softmax between them, in any formulation.
#pragma once

#include <cstdint>
#include <optional>

#include "schedule/schedule.h"

namespace tilewright {

// The blocks by their role: scores[…, row, key] of two operands, their maximum over keys, and the
// weights exp(score - maximum). Then the sum of the weights, their product with values[…, key,
// column], and the result, the quotient of both. Elementwise work may stand at any place between
// them: masks, biases, a weight that the result adds to the sum.
struct SoftmaxChain {
  Block scores, top, weights, sum, product, result;
  int64_t rows, keys, columns;  // maximum extents of the last row axis, keys and columns
  // Blocks that make operands of the scores and of the product: lookups, for example.
  std::vector<Block> operands;
  // Whether the numbers of rows and keys are dynamic. Axes before the rows may be dynamic, too.
  bool dynamic_rows = false, dynamic_keys = false;
  // An elementwise stage between scores and maximum that is too dear to be computed for both readers.
  std::optional<Block> terms = {};
};

// Finds the chain that makes up the whole program, besides injective blocks that make one operand
// each. Columns and the k of a score must be static. Injective stages between these blocks must be
// inlined first.
std::optional<SoftmaxChain> find_softmax_chain(const Schedule& s);

// Orders the loops of the last block as it reads the product, where it stores its elements in another
// order, such as heads behind rows. The chain is found so, too.
void follow_product(Schedule& s);

// The operands of the scores.
struct ScoreOperands {
  std::string rows, keys;  // buffers: the one with rows, and the other
};
ScoreOperands score_operands(const Schedule& s, const SoftmaxChain& chain);
// The operand with the values.
std::string value_operand(const Schedule& s, const SoftmaxChain& chain);
// The block of the chain that makes this operand; nothing for a parameter.
std::optional<Block> maker_of(const Schedule& s, const SoftmaxChain& chain,
                              const std::string& operand);

// The number of neighbouring heads that share their keys and values. Heads are the iterator before
// rows.
int64_t heads_of_keys(const Schedule& s, const SoftmaxChain& chain);
// Packs `heads` of the heads_of_keys() into rows. Row i of m in head h becomes row (h mod heads) m
// + i of head h / heads. In a decoding step these are all the rows. A block added to the chain
// copies the operand with rows into that form.
void pack_heads(Schedule& s, SoftmaxChain& chain, int64_t heads);

// Indexes buffers by the row iterator in a chain of one row, as with more rows. Then the row can be
// padded and bound to threads.
void index_single_row(Schedule& s, const SoftmaxChain& chain);

// The loops with everything of `row_tile` rows, and inside with everything of `key_tile` keys.
struct OnlineLoops {
  Loop tile, step;
  std::vector<Block> made;  // blocks made by online_softmax
};
OnlineLoops place_softmax_chain(Schedule& s, const SoftmaxChain& chain, int64_t row_tile,
                                int64_t key_tile);

// Places the scores and their terms under the loop over blocks of keys.
void place_scores(Schedule& s, const SoftmaxChain& chain, const Loop& step);
// Computes the terms in both of their readers.
void inline_terms(Schedule& s, SoftmaxChain& chain);

// Transposes scores, terms and weights: rows become the last dimension.
void lay_rows_last(Schedule& s, const SoftmaxChain& chain);

// The block's own loops, one per iterator, after it was moved under others.
std::vector<Loop> own_loops(const Schedule& s, const Block& block);

}  // namespace tilewright
