#include "tuner/size_plan.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace tilewright {
namespace {

// `most` of the sizes, evenly spread by their place, with both ends.
std::vector<int64_t> spread(const std::vector<int64_t>& sizes, size_t most) {
  if (sizes.size() <= most) return sizes;
  std::vector<int64_t> chosen;
  for (size_t i = 0; i < most; ++i) {
    chosen.push_back(sizes[(i * (sizes.size() - 1) + (most - 1) / 2) / (most - 1)]);
  }
  return chosen;
}

std::vector<int64_t> powers_of_two(int64_t min, int64_t max) {
  std::set<int64_t> sizes = {min, max};
  for (int64_t power = 1; power > 0 && power <= max; power *= 2) {
    if (power > min) sizes.insert(power);
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace

std::optional<int64_t> size_between(int64_t low, int64_t high) {
  if (high - low < 2) return std::nullopt;
  auto middle = static_cast<int64_t>(
      std::sqrt(static_cast<double>(low > 0 ? low : 1) * static_cast<double>(high)));
  middle = std::min(std::max(middle, low + 1), high - 1);
  if (middle % 2 == 0 && middle + 1 < high) ++middle;
  return middle;
}

std::optional<SizePlan> plan_sizes(const Workload& workload) {
  if (workload.dims.size() != 1) return std::nullopt;
  const DimVar& dim = workload.dims[0];
  SizePlan plan;
  plan.dim = dim.var.name();
  plan.min = dim.min;
  plan.max = dim.max;
  const std::vector<int64_t> powers = powers_of_two(dim.min, dim.max);
  plan.tuned = spread(powers, SizePlan::kMostTuned);
  std::set<int64_t> learnt(powers.begin(), powers.end());
  for (size_t i = 0; i + 1 < powers.size(); ++i) {
    if (auto between = size_between(powers[i], powers[i + 1])) learnt.insert(*between);
  }
  plan.learnt = spread({learnt.begin(), learnt.end()}, SizePlan::kMostLearnt);
  for (size_t i = 0; i + 1 < plan.learnt.size(); ++i) {
    if (auto between = size_between(plan.learnt[i], plan.learnt[i + 1])) {
      plan.held_out.push_back(*between);
    }
  }
  return plan;
}

}  // namespace tilewright
