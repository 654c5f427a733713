// The knobs of attention in one kernel with matrix instructions, of warps (mma) or of warpgroups
// (wgmma, sm_90a).
#pragma once

#include <optional>
#include <vector>

#include "tuner/rules/gpu/chain/gpu_chain_tiles.h"
#include "tuner/rules/rules.h"
#include "tuner/rules/softmax_chain.h"

namespace tilewright {

// A chain in terms of matrix instructions, with its tiles: rows (queries) per block and keys per
// step. `shape.row` multiplies the weights by the values.
struct AttentionChain {
  SoftmaxChain chain;
  ChainShape shape;
  std::vector<ChainTile> tiles;
};

// Nothing if the target has no instruction for the chain's types, or if the values' columns are not
// a multiple of 16.
std::optional<AttentionChain> gpu_attention_by_warps(RuleContext& c, const SoftmaxChain& chain);
// The same with a warpgroup for each 64 rows. An instruction must have all of the values' columns.
std::optional<AttentionChain> gpu_attention_by_warpgroups(RuleContext& c,
                                                          const SoftmaxChain& chain);

// Asks the knobs and builds the kernel (build_attention()).
void gpu_attend(RuleContext& c, const AttentionChain& attention);

}  // namespace tilewright
