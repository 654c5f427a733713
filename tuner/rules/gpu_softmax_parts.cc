#include "tuner/rules/gpu_softmax_parts.h"

#include <algorithm>

#include "ir/ceil_div.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu.h"

namespace tilewright {
namespace {

constexpr int64_t kMostBlocks = 16;  // for each multiprocessor; blocks of one warp are small
constexpr int64_t kMostPadding = 8;  // one key in so many, at most
constexpr int64_t kJoiners = 128;    // threads of a block that puts parts together

}  // namespace

int64_t gpu_choose_key_parts(RuleContext& c, const SoftmaxChain& chain, int64_t blocks,
                             int64_t keys, bool pads) {
  const int64_t sms = c.input.target.gpu.sms;
  std::vector<int64_t> options;
  for (int64_t parts : {1, 2, 4, 8, 16, 32, 64, 3, 6, 12, 24, 48}) {
    const int64_t padded = pads ? round_up(chain.keys, keys * parts) : chain.keys;
    const bool whole =
        pads ? (padded - chain.keys) * kMostPadding <= chain.keys : chain.keys % parts == 0;
    const bool useful = padded / parts >= keys && blocks * parts < kMostBlocks * sms;
    if (parts == 1 || (whole && useful)) options.push_back(parts);
  }
  if (options.size() < 2 || blocks >= kMostBlocks * sms) return 1;
  // The first gives each multiprocessor two blocks, whose waits hide each other.
  auto enough = std::find_if(options.begin(), options.end(),
                             [&](int64_t parts) { return blocks * parts >= 2 * sms; });
  if (enough == options.end()) enough = std::max_element(options.begin(), options.end());
  std::rotate(options.begin(), enough, std::next(enough));
  return c.t.choose_added(chain.top.name + ".parts", options, 1);
}

KeyParts gpu_split_keys(RuleContext& c, SoftmaxChain& chain, int64_t parts) {
  // The copies of the maximum and of both sums, the maximum of all and the scales, and both sums of all.
  const std::vector<Block> made = c.s.split_softmax(chain.top, parts);
  constexpr size_t kSums = 2;
  KeyParts result{{made[0]}, made[kSums + 1], made[kSums + 2], chain.result, {}};
  for (size_t i = 1; i <= kSums; ++i) {
    const std::vector<Block> from = c.s.producers(made[i]);
    const bool of_product = std::find(from.begin(), from.end(), chain.product) != from.end();
    if (of_product)
      chain.result = made[i];
    else
      result.left.push_back(made[i]);
    result.sums.push_back(made[kSums + 2 + i]);
  }
  return result;
}

OnlineLoops gpu_place_key_parts(RuleContext& c, const SoftmaxChain& chain, const KeyParts& parts,
                                int64_t row_tile, int64_t key_tile) {
  std::vector<Loop> loops = c.s.loops(chain.top);
  std::vector<Loop> rows(loops.begin(), loops.end() - 1);
  rows.back() = c.s.split(rows.back(), {-1, row_tile})[0];
  OnlineLoops result;
  result.tile = c.s.fuse(rows);
  // Each goes right behind what it reads: the sum of weights in front of the product.
  for (const Block& b : {chain.weights, chain.product, chain.sum, chain.result}) {
    c.s.reverse_compute_at(b, result.tile);
  }
  auto [step, made] = c.s.online_softmax(chain.top, key_tile);
  result.step = step;
  result.made = std::move(made);
  c.s.compute_at(chain.scores, step);
  for (const Block& b : parts.left) c.s.reverse_compute_at(b, result.tile);
  return result;
}

void gpu_join_key_parts(RuleContext& c, const KeyParts& parts) {
  c.s.compute_inline(parts.scale);
  const std::vector<Loop> grid = gpu_thread_grid(c, c.s.loops(parts.result), kJoiners);
  std::vector<Block> reductions = parts.sums;
  reductions.push_back(parts.top);
  for (const Block& b : reductions) {
    c.s.compute_at(b, grid.back());
    c.s.set_scope(store_of(c.s.node(b)).buffer->name, Scope::Register);
  }
  for (const Block& b : reductions) c.s.decompose_reduction(b, c.s.loops(b).back());
  gpu_bind_grid(c, grid);
}

}  // namespace tilewright
