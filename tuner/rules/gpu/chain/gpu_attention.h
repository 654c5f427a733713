// Attention with matrix instructions in one kernel: its plan, and the steps that build it.
#pragma once

#include <string>

#include "tuner/rules/gpu/chain/gpu_chain_tiles.h"
#include "tuner/rules/gpu/copy/gpu_tensor_copies.h"
#include "tuner/rules/rules.h"
#include "tuner/rules/softmax_chain.h"

namespace tilewright {

struct AttentionPlan {
  const Instruction *scores = nullptr, *product = nullptr;  // of warps (mma) or warpgroups (wgmma)
  ChainAnswers answers = {};
  int64_t terms = 0;  // k of a score, in whole instructions
  int64_t parts = 1;  // split-KV
  std::string copies = kByCpAsync;
  bool overlaps = false;  // software pipelining: values run behind the next scores
};

// A block takes a tile of rows through one loop over blocks of keys (place_softmax_chain). A warp
// has whole rows. Scores stay where the instruction leaves its accumulators. Each thread turns them
// into the weights, operand A of the next instruction (Dao, "FlashAttention-2", 2023). The four
// lanes that share a row exchange maxima and sums by shuffles. Warpgroups multiply rows and keys
// from shared memory, where values are contiguous across their k (Shah et al., "FlashAttention-3",
// 2024).
OnlineLoops build_attention(RuleContext& c, SoftmaxChain chain, const AttentionPlan& plan);

}  // namespace tilewright
