// Attention in one kernel by matrix instructions of warps.
#pragma once

#include <optional>
#include <vector>

#include "tuner/rules/gpu_chain_tiles.h"
#include "tuner/rules/rules.h"
#include "tuner/rules/softmax_chain.h"

namespace tilewright {

// A chain as matrix instructions form it: by which, and in what tiles.
struct TensorChain {
  SoftmaxChain chain;
  ChainShape shape;
  std::vector<ChainTile> tiles;
};

// Nothing where the target has no instruction for the types of the chain, or values have a number of
// columns that is no multiple of 16.
std::optional<TensorChain> gpu_tensor_chain_of(RuleContext& c, const SoftmaxChain& chain);

// A block takes a tile of rows through one loop over blocks of keys (place_softmax_chain). A warp has
// whole rows: scores where an instruction leaves its sums, from which each thread makes the weights
// that the next instruction takes from it as operand A (Dao, "FlashAttention-2", 2023); the four
// lanes that share a row exchange their maxima and sums by shuffles.
void gpu_tensor_chain(RuleContext& c, const TensorChain& chain);

}  // namespace tilewright
