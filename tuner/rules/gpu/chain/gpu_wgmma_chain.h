// Attention in one kernel with wgmma, the asynchronous matrix instructions of warpgroups (sm_90a).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernel/instructions/wgmma_rows.h"
#include "tuner/rules/rules.h"
#include "tuner/rules/softmax_chain.h"

namespace tilewright {

// Rows (queries) per block, with a warpgroup for each 64, and keys per step.
struct WgmmaChainTile {
  int64_t rows, keys;

  std::string name() const;
  int64_t threads() const { return rows / kWarpgroupRows * kWarpgroup; }
};

// A chain in terms of these instructions, with its tiles.
struct WgmmaChain {
  SoftmaxChain chain;
  ElemType elem{};    // of the operands
  int64_t terms = 0;  // k of a score, rounded up to whole instructions
  std::vector<WgmmaChainTile> tiles;

  // The instruction for this many columns of the second operand.
  const Instruction& row(int64_t columns) const;
  // Bytes of shared memory for `stages` tiles of keys and values, and one of the rows.
  int64_t bytes(const WgmmaChainTile& t, int64_t stages) const;
  // Whether the product with values may run beside the softmax of the next keys: shared memory has
  // room for the stages that this needs.
  bool may_overlap(const WgmmaChainTile& t, const GpuFacts& gpu) const;
};

// Nothing if the target has no instruction for the chain's types. The same if the values' columns
// are not a multiple of 16, or exceed an instruction.
std::optional<WgmmaChain> gpu_wgmma_chain_of(RuleContext& c, const SoftmaxChain& chain);

// A block takes a tile of rows through one loop over blocks of keys (place_softmax_chain). Rows and
// keys are multiplied from shared memory. A warpgroup's scores stay in its registers, where they
// become the weights that the second product takes as operand A. Values are contiguous across their
// k there (after Shah et al., "FlashAttention-3", 2024).
void gpu_wgmma_chain(RuleContext& c, const WgmmaChain& chain);

}  // namespace tilewright
