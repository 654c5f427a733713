// Attention in one kernel with wgmma, the asynchronous matrix instructions of warpgroups (sm_90a).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernel/instructions/wgmma_rows.h"
#include "tuner/rules/gpu/chain/gpu_chain_tiles.h"
#include "tuner/rules/rules.h"
#include "tuner/rules/softmax_chain.h"

namespace tilewright {

// A chain in terms of these instructions, with its tiles: rows (queries) per block, with a warpgroup
// for each 64, and keys per step.
struct WgmmaChain {
  SoftmaxChain chain;
  ElemType elem{};    // of the operands
  int64_t terms = 0;  // k of a score, rounded up to whole instructions
  std::vector<ChainTile> tiles;

  // The instruction for this many columns of the second operand.
  const Instruction& row(int64_t columns) const;
  // Bytes of shared memory for `stages` tiles of keys and values, and one of the rows.
  int64_t bytes(const ChainTile& t, int64_t stages) const;
  // Whether the product with values may run beside the softmax of the next keys: shared memory has
  // room for the stages that this needs.
  bool may_overlap(const ChainTile& t, const GpuFacts& gpu) const;
};

// Nothing if the target has no instruction for the chain's types. The same if the values' columns
// are not a multiple of 16, or exceed an instruction.
std::optional<WgmmaChain> gpu_wgmma_chain_of(RuleContext& c, const SoftmaxChain& chain);

// Asks the knobs of attention with warpgroups and builds it (build_attention()).
void gpu_wgmma_chain(RuleContext& c, const WgmmaChain& chain);

}  // namespace tilewright
