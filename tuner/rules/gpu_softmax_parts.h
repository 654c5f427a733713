// A softmax chain on a GPU whose keys are taken in parts, known as flash decoding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tuner/rules/rules.h"
#include "tuner/rules/softmax_chain.h"

namespace tilewright {

// Into how many parts the keys of a chain are cut: blocks of their own take each part, and leave a
// maximum, a sum and a product in global memory, which a second kernel puts together, always in the same
// order. `blocks` is how many there are of one part, `keys` how many keys a block takes at once; keys are
// padded to whole tiles where `pads` says so, and parts divide them otherwise. The question is asked
// where several parts would keep more of the GPU busy; a config without it has one.
int64_t gpu_choose_key_parts(RuleContext& c, const SoftmaxChain& chain, int64_t blocks,
                             int64_t keys, bool pads);

// The blocks that split_softmax makes, by what they are to the chain.
struct KeyParts {
  std::vector<Block> left;  // what parts leave of a row: the maximum and the sum of weights
  Block top, scale,
      result;  // the maximum of all, what brings parts to it, and the chain's own result
  std::vector<Block> sums;  // of all parts
};

// Cuts the keys into parts. `chain` is that of the parts then, and its result what they leave of the
// product. Its extent along keys is a multiple of `parts`.
KeyParts gpu_split_keys(RuleContext& c, SoftmaxChain& chain, int64_t parts);

// As place_softmax_chain, of such a chain: what is left of rows stands behind the loop over blocks of keys.
OnlineLoops gpu_place_key_parts(RuleContext& c, const SoftmaxChain& chain, const KeyParts& parts,
                                int64_t row_tile, int64_t key_tile);

// The second kernel: a thread an element of the result.
void gpu_join_key_parts(RuleContext& c, const KeyParts& parts);

}  // namespace tilewright
