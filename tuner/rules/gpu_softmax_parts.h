// A softmax chain on a GPU whose keys are taken in parts, known as flash decoding.
#pragma once

#include <cstdint>

#include "tuner/rules/rules.h"
#include "tuner/rules/softmax_parts.h"

namespace tilewright {

// Into how many parts the keys of a chain are cut: blocks of their own take each part, and leave a
// maximum, a sum and a product in global memory, which a second kernel puts together, always in the same
// order. `blocks` is how many there are of one part, `keys` how many keys a block takes at once; keys are
// padded to whole tiles where `pads` says so, and parts divide them otherwise. The question is asked
// where several parts would keep more of the GPU busy; a config without it has one.
int64_t gpu_choose_key_parts(RuleContext& c, const SoftmaxChain& chain, int64_t blocks,
                             int64_t keys, bool pads);

// The second kernel: a thread an element of the result.
void gpu_join_key_parts(RuleContext& c, const KeyParts& parts);

}  // namespace tilewright
