// Blocked layouts (NCHWc) of intermediate buffers: blocks of their last dimension.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tuner/rules/rules.h"

namespace tilewright {

// Whether the block is an earlier contraction, or fused into one.
bool stands_in_parallel(const Schedule& s, const Block& block);

// The blocks that write what `padding` pads: earlier contractions, or blocks fused into one. Empty
// for a block that does not select between what it reads and something else.
std::vector<Block> padded_by(const Schedule& s, const Block& padding);

// Stores the producer's value with this dimension last, and makes it in that order. Leaves a producer whose
// iterators are not the dimensions.
void put_dimension_last(RuleContext& c, const Block& producer, size_t dimension);

// Asks for the block size in which `producer` stores the last dimension for its one consumer, and
// sets that layout. NHWC becomes NCHWc: a chunk of the consumer's reduction is contiguous and
// nothing is copied. Skips parameters, buffers that several blocks read, and dimensions of one
// block.
void choose_blocked_layout(RuleContext& c, const Block& producer, const std::string& question,
                           int64_t lanes);

}  // namespace tilewright
