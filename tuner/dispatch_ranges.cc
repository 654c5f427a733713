#include "tuner/dispatch_ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/error.h"

namespace tilewright {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kCostOfARange = kDispatchNoise;

double fastest(const SizeTimes& times, size_t size) {
  double best = kNever;
  for (const std::vector<double>& kernel : times.seconds) {
    if (kernel[size] > 0) best = std::min(best, kernel[size]);
  }
  return best;
}

// How much longer a kernel takes than the fastest, at each size, as a share; kNever where it must
// not stand.
std::vector<std::vector<double>> slowdowns(const SizeTimes& times) {
  std::vector<std::vector<double>> costs(times.seconds.size());
  for (size_t s = 0; s < times.sizes.size(); ++s) {
    const double best = fastest(times, s);
    for (size_t k = 0; k < times.seconds.size(); ++k) {
      const double seconds = times.seconds[k][s];
      const bool allowed = seconds > 0 && !loses_to_untuned(times, k, s);
      costs[k].push_back(allowed ? seconds / best - 1 : kNever);
    }
  }
  return costs;
}

// The best way to cover the first sizes: what it costs, and its last range.
struct Cover {
  double cost = kNever;
  size_t begin = 0;  // of the last range
  size_t kernel = 0;
};

// covers[r][s]: the first `s` sizes in `r` ranges.
using Covers = std::vector<std::vector<Cover>>;

void extend(Covers& covers, const std::vector<std::vector<double>>& costs, size_t r, size_t end) {
  Cover& best = covers[r][end];
  for (size_t k = 0; k < costs.size(); ++k) {
    double of_range = kCostOfARange;
    for (size_t begin = end; begin-- > 0;) {
      of_range += costs[k][begin];
      const double cost = covers[r - 1][begin].cost + of_range;
      if (cost < best.cost) best = {cost, begin, k};
    }
  }
}

int64_t boundary(int64_t below, int64_t above) {
  const auto middle = static_cast<int64_t>(
      std::sqrt(static_cast<double>(std::max<int64_t>(below, 1)) * static_cast<double>(above)));
  return std::clamp(middle, below, above - 1);
}

}  // namespace

bool loses_to_untuned(const SizeTimes& times, size_t kernel, size_t size) {
  const double untuned = times.untuned[size];
  return untuned > 0 && times.seconds[kernel][size] > (1 + kDispatchNoise) * untuned;
}

std::vector<KernelRange> learn_ranges(const SizeTimes& times, int64_t min, int64_t max,
                                      size_t most) {
  TW_ASSERT(most >= 1 && !times.sizes.empty(), "there is a range and a measured size");
  const std::vector<std::vector<double>> costs = slowdowns(times);
  const size_t count = times.sizes.size();
  Covers covers(most + 1, std::vector<Cover>(count + 1));
  covers[0][0].cost = 0;
  size_t chosen = 0;
  for (size_t r = 1; r <= most; ++r) {
    for (size_t end = 1; end <= count; ++end) extend(covers, costs, r, end);
    if (chosen == 0 || covers[r][count].cost < covers[chosen][count].cost) chosen = r;
  }
  std::vector<KernelRange> ranges;
  if (covers[chosen][count].cost == kNever) return ranges;
  for (size_t end = count, r = chosen; r > 0; --r) {
    const Cover& cover = covers[r][end];
    const bool is_first = cover.begin == 0;
    const int64_t first =
        is_first ? min : boundary(times.sizes[cover.begin - 1], times.sizes[cover.begin]) + 1;
    const int64_t last = ranges.empty() ? max : ranges.back().first - 1;
    ranges.push_back({first, last, cover.kernel});
    end = cover.begin;
  }
  std::reverse(ranges.begin(), ranges.end());
  return ranges;
}

size_t kernel_at(const std::vector<KernelRange>& ranges, int64_t size) {
  for (const KernelRange& range : ranges) {
    if (size <= range.last) return range.kernel;
  }
  internal_error(__FILE__, __LINE__, "size", std::to_string(size) + " lies beyond the ranges");
}

double total_slowdown(const SizeTimes& times, const std::vector<KernelRange>& ranges) {
  double sum = 0;
  for (size_t s = 0; s < times.sizes.size(); ++s) {
    sum += times.seconds[kernel_at(ranges, times.sizes[s])][s] / fastest(times, s) - 1;
  }
  return sum;
}

}  // namespace tilewright
