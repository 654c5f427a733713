// Intermediate buffers in blocks of their last dimension.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tuner/rules/rules.h"

namespace tilewright {

// True for what an earlier contraction is, or has taken in.
bool stands_in_parallel(const Schedule& s, const Block& block);

// What an earlier contraction leaves for `padding` to put zeros around: the blocks that write it.
// Nothing for a block that does not choose between what it reads and something else.
std::vector<Block> padded_by(const Schedule& s, const Block& padding);

// Asks in blocks of how many elements of the last dimension that which `producer` writes is to be
// stored, for its one consumer (NHWC becomes NCHWc: a chunk of the consumer's reduction lies together
// and nothing is copied), and lays it out so. Does nothing to parameters, to what several blocks read,
// and to dimensions of one block.
void choose_blocked_layout(RuleContext& c, const Block& producer, const std::string& question,
                           int64_t lanes);

}  // namespace tilewright
