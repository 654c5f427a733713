// Attention in one kernel with warp-level matrix instructions (mma).
#pragma once

#include <optional>
#include <vector>

#include "tuner/rules/gpu/chain/gpu_chain_tiles.h"
#include "tuner/rules/rules.h"
#include "tuner/rules/softmax_chain.h"

namespace tilewright {

// A chain in terms of matrix instructions, with its tiles.
struct TensorChain {
  SoftmaxChain chain;
  ChainShape shape;
  std::vector<ChainTile> tiles;
};

// Nothing if the target has no instruction for the chain's types, or if the values' columns are not
// a multiple of 16.
std::optional<TensorChain> gpu_tensor_chain_of(RuleContext& c, const SoftmaxChain& chain);

// Asks the knobs of attention with warps and builds it (build_attention()).
void gpu_tensor_chain(RuleContext& c, const TensorChain& chain);

}  // namespace tilewright
