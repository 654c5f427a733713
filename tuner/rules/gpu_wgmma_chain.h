// Attention in one kernel by asynchronous matrix instructions of warpgroups (sm_90a).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/wgmma_rows.h"
#include "tuner/rules/rules.h"
#include "tuner/rules/softmax_chain.h"

namespace tilewright {

// A block's rows (queries), a warpgroup for each 64, and the keys that it takes at once.
struct WgmmaChainTile {
  int64_t rows, keys;

  std::string name() const;
  int64_t threads() const { return rows / WgmmaRow::m * kWarpgroup; }
};

// A chain as these instructions form it, and in what tiles.
struct WgmmaChain {
  SoftmaxChain chain;
  ElemType elem{};    // of the operands
  int64_t terms = 0;  // of a score, a multiple of an instruction's
  std::vector<WgmmaChainTile> tiles;

  // The one for so many columns of the second operand.
  const WgmmaRow& row(int64_t columns) const;
  // Of shared memory for so many tiles of keys and values, and one of the rows.
  int64_t bytes(const WgmmaChainTile& t, int64_t stages) const;
  // Whether the product with values may run beside the softmax of the next keys: there is room for the
  // stages that it takes.
  bool may_overlap(const WgmmaChainTile& t, const GpuFacts& gpu) const;
};

// Nothing where the target has no instruction for the types of the chain, or values have a number of
// columns that is no multiple of 16, or more than an instruction has.
std::optional<WgmmaChain> gpu_wgmma_chain_of(RuleContext& c, const SoftmaxChain& chain);

// A block takes a tile of rows through one loop over blocks of keys (place_softmax_chain). Rows and keys
// are multiplied from shared memory; a warpgroup's scores stay in its registers, where they become the
// weights that the second product takes as operand A, and values run across their terms there (after
// Shah et al., "FlashAttention-3", 2024).
void gpu_wgmma_chain(RuleContext& c, const WgmmaChain& chain);

}  // namespace tilewright
