#include "tuner/rules/softmax_parts.h"

#include <algorithm>
#include <utility>

namespace tilewright {

KeyParts split_keys(Schedule& s, SoftmaxChain& chain, int64_t parts) {
  // Made in this order: copies of the maximum and of both sums; the total maximum and the scales;
  // both total sums.
  const std::vector<Block> made = s.split_softmax(chain.top, parts);
  constexpr size_t kSums = 2;
  KeyParts result{{made[0]}, made[kSums + 1], made[kSums + 2], chain.result, {}};
  for (size_t i = 1; i <= kSums; ++i) {
    const std::vector<Block> from = s.producers(made[i]);
    const bool of_product = std::find(from.begin(), from.end(), chain.product) != from.end();
    if (of_product)
      chain.result = made[i];
    else
      result.left.push_back(made[i]);
    result.sums.push_back(made[kSums + 2 + i]);
  }
  return result;
}

OnlineLoops place_key_parts(Schedule& s, const SoftmaxChain& chain, const KeyParts& parts,
                            int64_t row_tile, int64_t key_tile) {
  std::vector<Loop> loops = s.loops(chain.top);
  std::vector<Loop> rows(loops.begin(), loops.end() - 1);
  rows.back() = s.split(rows.back(), {-1, row_tile})[0];
  OnlineLoops result;
  result.tile = s.fuse(rows);
  // Each block follows its inputs; the sum of weights comes before the product.
  for (const Block& b : {chain.weights, chain.product, chain.sum, chain.result}) {
    s.reverse_compute_at(b, result.tile);
  }
  auto [step, made] = s.online_softmax(chain.top, key_tile);
  result.step = step;
  result.made = std::move(made);
  place_scores(s, chain, step);
  for (const Block& b : parts.left) s.reverse_compute_at(b, result.tile);
  return result;
}

}  // namespace tilewright
