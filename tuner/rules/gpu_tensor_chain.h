// Attention in one kernel by matrix instructions of warps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/mma_rows.h"
#include "tuner/rules/rules.h"
#include "tuner/rules/softmax_chain.h"

namespace tilewright {

// A block's rows (queries), the keys that it takes at once, and the rows of a warp.
struct TensorChainTile {
  int64_t rows, keys, warp_rows;

  std::string name() const;
  int64_t threads() const { return rows / warp_rows * 32; }
};

// A chain as matrix instructions form it: by which, and in what tiles.
struct TensorChain {
  SoftmaxChain chain;
  const MmaRow* row = nullptr;
  int64_t terms = 0;   // of a score
  int64_t stacks = 1;  // of rows: heads of a batch, say
  std::vector<TensorChainTile> tiles;

  // Tiles that there are, each of which takes all keys.
  int64_t blocks(const TensorChainTile& t) const;
  // 32-bit registers of a thread for what a warp has of rows, scores, weights and sums.
  int64_t registers(const TensorChainTile& t, bool rows_in_registers) const;
  // Of shared memory for so many tiles of keys and values, and one of the rows unless they are in
  // registers.
  int64_t bytes(const TensorChainTile& t, int64_t stages, bool rows_in_registers) const;
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
