// Two contractions with a softmax between them: attention, whoever wrote it.
#pragma once

#include <cstdint>
#include <optional>

#include "schedule/schedule.h"

namespace tilewright {

// The blocks, by what they are to the softmax: scores[…, row, key] of two operands, their maximum over
// keys, weights exp(score - maximum), the sum of these, their product with values[…, key, column],
// and the result, which is the quotient of the two sums.
struct SoftmaxChain {
  Block scores, top, weights, sum, product, result;
  int64_t rows, keys, columns;  // extents: of the last axis of rows, and of the others; the largest
  std::vector<Block>
      operands;  // that make operands of the scores and of the product: look-ups, say
  // Whether rows, and keys, are known at launch alone. What stands in front of rows may be, too.
  bool dynamic_rows = false, dynamic_keys = false;
};

// The chain that the program is, all of it and nothing else but injective blocks that make an operand
// each, of constant columns and terms of a score. Injective stages between these blocks are to be inlined
// first.
std::optional<SoftmaxChain> find_softmax_chain(const Schedule& s);

// The operands of the scores.
struct ScoreOperands {
  std::string rows, keys;  // buffers: the one with rows, and the other
};
ScoreOperands score_operands(const Schedule& s, const SoftmaxChain& chain);
// The values.
std::string value_operand(const Schedule& s, const SoftmaxChain& chain);
// The block of the chain that makes this operand; nothing for a parameter.
std::optional<Block> maker_of(const Schedule& s, const SoftmaxChain& chain,
                              const std::string& operand);

// How many neighbouring heads, the last iterator but one of rows, share their keys and values.
int64_t heads_of_keys(const Schedule& s, const SoftmaxChain& chain);
// So many heads of `heads_of_keys` become rows: head h and row i of m are row (h mod heads) m + i of
// head h / heads. What a step of decoding has of rows are these. The operand with rows is copied into
// that form by a block that the chain gets.
void pack_heads(Schedule& s, SoftmaxChain& chain, int64_t heads);

// Of a chain of one row, what is read and written of rows stands at their iterators, as it does where
// there are more: it can be padded then, and taken by threads of their own.
void index_single_row(Schedule& s, const SoftmaxChain& chain);

// Everything of `row_tile` rows under one loop, and of `key_tile` keys under one in there.
struct OnlineLoops {
  Loop tile, step;
  std::vector<Block> made;  // by online_softmax
};
OnlineLoops place_softmax_chain(Schedule& s, const SoftmaxChain& chain, int64_t row_tile,
                                int64_t key_tile);

// Scores and weights with rows as their last dimension.
void lay_rows_last(Schedule& s, const SoftmaxChain& chain);

// The loops of a block that was moved under others, one an iterator.
std::vector<Loop> own_loops(const Schedule& s, const Block& block);

}  // namespace tilewright
