// Lists of numbers to choose from, the most promising first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/ceil_div.h"

namespace tilewright {

// Options up to `limit`, the preferred one first.
inline std::vector<int64_t> up_to(std::vector<int64_t> options, int64_t limit, int64_t preferred) {
  std::erase_if(options, [&](int64_t o) { return o > limit; });
  if (options.empty()) options = {1};
  int64_t best = options[0];
  for (int64_t o : options) {
    if (o <= preferred && (best > preferred || o > best)) best = o;
  }
  std::erase(options, best);
  options.insert(options.begin(), best);
  return options;
}

// The preferred size of tiles, or where few of them cover `count`, the option near it up to `limit` whose tiles
// hang over the least: a partial tile takes as long as a whole one, or longer.
inline int64_t fitting(const std::vector<int64_t>& options, int64_t limit, int64_t preferred,
                       int64_t count) {
  constexpr int64_t kFew = 8;
  if (preferred > limit || ceil_div(count, preferred) > kFew) return preferred;
  const auto covered = [&](int64_t o) { return ceil_div(count, o) * o; };
  int64_t best = preferred;
  for (int64_t o : options) {
    if (o > limit || 2 * o < preferred || 2 * o > 3 * preferred) continue;
    const int64_t here = std::abs(o - preferred), there = std::abs(best - preferred);
    if (covered(o) < covered(best) || (covered(o) == covered(best) && here <= there)) best = o;
  }
  return best;
}

}  // namespace tilewright
