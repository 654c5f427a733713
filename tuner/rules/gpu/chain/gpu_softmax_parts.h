// Split-KV attention on a GPU (flash decoding): a softmax chain with its keys in parts.
#pragma once

#include <cstdint>

#include "tuner/rules/rules.h"
#include "tuner/rules/softmax_parts.h"

namespace tilewright {

// Asks for the number of parts (split-KV). Each part has blocks of its own, which leave a maximum,
// a sum and a product in global memory. A second kernel combines them, always in the same order.
// `blocks` is the number of blocks of one part, and `keys` the number of keys per step. With
// `pads`, keys are padded to whole tiles; otherwise parts divide them. The knob exists if several
// parts would keep more of the GPU busy; a config without it means one part.
int64_t gpu_choose_key_parts(RuleContext& c, const SoftmaxChain& chain, int64_t blocks,
                             int64_t keys, bool pads);

// Schedules the second kernel: one thread per element of the result.
void gpu_join_key_parts(RuleContext& c, const KeyParts& parts);

}  // namespace tilewright
