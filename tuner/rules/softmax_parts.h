// Split-KV: a softmax chain with its keys in parts (flash decoding).
#pragma once

#include <cstdint>
#include <vector>

#include "tuner/rules/softmax_chain.h"

namespace tilewright {

// The blocks made by split_softmax, by their role.
struct KeyParts {
  std::vector<Block> left;  // the parts' results per row: maximum, sum of weights
  // The maximum over all parts, the scales that bring parts to it, and the chain's own result.
  Block top, scale, result;
  std::vector<Block> sums;  // over all parts
};

// Cuts the keys into parts. `chain` becomes that of a part, and its result the part's product. The
// number of keys must be a multiple of `parts`.
KeyParts split_keys(Schedule& s, SoftmaxChain& chain, int64_t parts);

// Like place_softmax_chain, for such a chain: the parts' row results follow the loop over blocks of
// keys.
OnlineLoops place_key_parts(Schedule& s, const SoftmaxChain& chain, const KeyParts& parts,
                            int64_t row_tile, int64_t key_tile);

}  // namespace tilewright
