#include "tuner/rules/gpu/chain/gpu_softmax_parts.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu.h"

namespace tilewright {
namespace {

constexpr int64_t kMostSmallBlocks = 16;  // per SM; blocks of one warp are small
constexpr int64_t kMostPadding = 8;       // at most one padded key per this many keys
constexpr int64_t kJoiners = 128;         // threads per block that combines parts

}  // namespace

int64_t gpu_choose_key_parts(RuleContext& c, const SoftmaxChain& chain, int64_t blocks,
                             int64_t keys, bool pads) {
  const int64_t sms = c.input.target.gpu.sms;
  std::vector<int64_t> options;
  for (int64_t parts : {1, 2, 4, 8, 16, 32, 64, 3, 6, 12, 24, 48}) {
    const int64_t padded = pads ? round_up(chain.keys, keys * parts) : chain.keys;
    const bool whole = pads ? (padded - chain.keys) * kMostPadding <= chain.keys
                            : !chain.dynamic_keys && chain.keys % parts == 0;
    const bool useful = padded / parts >= keys && blocks * parts < kMostSmallBlocks * sms;
    if (parts == 1 || (whole && useful)) options.push_back(parts);
  }
  if (options.size() < 2 || blocks >= kMostSmallBlocks * sms) return 1;
  // The first option gives each SM two blocks, which hide each other's waits.
  auto enough = std::find_if(options.begin(), options.end(),
                             [&](int64_t parts) { return blocks * parts >= 2 * sms; });
  if (enough == options.end()) enough = std::max_element(options.begin(), options.end());
  std::rotate(options.begin(), enough, std::next(enough));
  return c.t.choose(chain.top.name + ".parts", options);
}

void gpu_join_key_parts(RuleContext& c, const KeyParts& parts) {
  c.s.compute_inline(parts.scale);
  const std::vector<Loop> grid = gpu_thread_grid(c, c.s.loops(parts.result), kJoiners);
  std::vector<Block> reductions = parts.sums;
  reductions.push_back(parts.top);
  for (const Block& b : reductions) {
    c.s.compute_at(b, grid.back());
    c.s.set_scope(c.s.output(b)->name, Scope::Register);
  }
  for (const Block& b : reductions) c.s.decompose_reduction(b, c.s.loops(b).back());
  gpu_bind_grid(c, grid);
}

}  // namespace tilewright
