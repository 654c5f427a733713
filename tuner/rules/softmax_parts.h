// A softmax chain whose keys are taken in parts, known as flash decoding.
#pragma once

#include <cstdint>
#include <vector>

#include "tuner/rules/softmax_chain.h"

namespace tilewright {

// The blocks that split_softmax makes, by what they are to the chain.
struct KeyParts {
  std::vector<Block> left;  // what parts leave of a row: the maximum and the sum of weights
  Block top, scale,
      result;  // the maximum of all, what brings parts to it, and the chain's own result
  std::vector<Block> sums;  // of all parts
};

// Cuts the keys into parts. `chain` is that of the parts then, and its result what they leave of the
// product. Its extent along keys is a multiple of `parts`.
KeyParts split_keys(Schedule& s, SoftmaxChain& chain, int64_t parts);

// As place_softmax_chain, of such a chain: what is left of rows stands behind the loop over blocks of keys.
OnlineLoops place_key_parts(Schedule& s, const SoftmaxChain& chain, const KeyParts& parts,
                            int64_t row_tile, int64_t key_tile);

}  // namespace tilewright
