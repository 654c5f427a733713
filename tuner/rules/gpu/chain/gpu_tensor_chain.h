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

// A block takes a tile of rows through one loop over blocks of keys (place_softmax_chain). A warp
// has whole rows. Scores stay where the instruction leaves its accumulators. Each thread turns them
// into the weights, operand A of the next instruction (Dao, "FlashAttention-2", 2023). The four
// lanes that share a row exchange maxima and sums by shuffles.
void gpu_tensor_chain(RuleContext& c, const TensorChain& chain);

}  // namespace tilewright
