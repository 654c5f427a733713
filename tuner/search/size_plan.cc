#include "tuner/search/size_plan.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace tilewright {
namespace {

// At most `most` of the sizes, evenly spread by index, both ends included.
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

// Powers of two, both ends, and a size between each two of these.
std::vector<int64_t> ladder(const DimVar& dim) {
  const std::vector<int64_t> powers = powers_of_two(dim.min, dim.max);
  std::set<int64_t> sizes(powers.begin(), powers.end());
  for (size_t i = 0; i + 1 < powers.size(); ++i) {
    if (auto between = size_between(powers[i], powers[i + 1])) sizes.insert(*between);
  }
  return {sizes.begin(), sizes.end()};
}

// All grid points in ascending order.
std::vector<SizeVector> product(const std::vector<std::vector<int64_t>>& axes) {
  std::vector<SizeVector> all = {{}};
  for (const std::vector<int64_t>& axis : axes) {
    std::vector<SizeVector> longer;
    for (const SizeVector& sizes : all) {
      for (int64_t size : axis) {
        longer.push_back(sizes);
        longer.back().push_back(size);
      }
    }
    all = std::move(longer);
  }
  return all;
}

void plan_one(const DimVar& dim, SizePlan& plan) {
  for (int64_t size : spread(powers_of_two(dim.min, dim.max), SizePlan::most_tuned(1))) {
    plan.tuned.push_back({size});
  }
  for (int64_t size : spread(ladder(dim), SizePlan::most_learnt(1))) plan.learnt.push_back({size});
  for (size_t i = 0; i + 1 < plan.learnt.size(); ++i) {
    const auto between = size_between(plan.learnt[i][0], plan.learnt[i + 1][0]);
    if (between) plan.held_out.push_back({*between});
  }
}

// Sizes per dimension, for a grid of at most `most` points. Starts from both ends; each dimension
// in turn gets one more size.
std::vector<std::vector<int64_t>> grid_axes(const std::vector<DimVar>& dims, size_t most) {
  std::vector<std::vector<int64_t>> ladders;
  for (const DimVar& dim : dims) ladders.push_back(ladder(dim));
  std::vector<size_t> counts;
  size_t points = 1;
  for (const auto& sizes : ladders) {
    counts.push_back(std::min<size_t>(sizes.size(), 2));
    points *= counts.back();
  }
  for (bool grew = true; grew;) {
    grew = false;
    for (size_t d = 0; d < dims.size(); ++d) {
      const size_t more = points / counts[d] * (counts[d] + 1);
      if (counts[d] == ladders[d].size() || more > most) continue;
      points = more;
      ++counts[d];
      grew = true;
    }
  }
  for (size_t d = 0; d < dims.size(); ++d) ladders[d] = spread(ladders[d], counts[d]);
  return ladders;
}

// All at their minimum, all at their maximum, one of them at its maximum, and all in the middle.
std::vector<SizeVector> tuned_of_grid(const std::vector<std::vector<int64_t>>& axes,
                                      const SizePlan& plan) {
  std::set<SizeVector> tuned = {plan.min, plan.max};
  SizeVector middle;
  for (size_t d = 0; d < axes.size(); ++d) {
    SizeVector one_large = plan.min;
    one_large[d] = plan.max[d];
    tuned.insert(one_large);
    middle.push_back(axes[d][axes[d].size() / 2]);
  }
  tuned.insert(middle);
  return {tuned.begin(), tuned.end()};
}

void plan_grid(const std::vector<DimVar>& dims, SizePlan& plan) {
  const auto axes = grid_axes(dims, SizePlan::most_learnt(dims.size()));
  plan.learnt = product(axes);
  plan.tuned = tuned_of_grid(axes, plan);
  std::vector<std::vector<int64_t>> middles;
  for (const std::vector<int64_t>& axis : axes) {
    std::set<int64_t> between = {axis[0]};
    if (axis.size() > 1) between.clear();
    for (size_t i = 0; i + 1 < axis.size(); ++i) {
      between.insert(size_between(axis[i], axis[i + 1]).value_or(axis[i]));
    }
    middles.emplace_back(between.begin(), between.end());
  }
  for (SizeVector& cell : product(middles)) {
    if (!std::binary_search(plan.learnt.begin(), plan.learnt.end(), cell)) {
      plan.held_out.push_back(std::move(cell));
    }
  }
}

}  // namespace

std::map<std::string, int64_t> SizePlan::at(const SizeVector& sizes) const {
  std::map<std::string, int64_t> named;
  for (size_t d = 0; d < dims.size(); ++d) named[dims[d]] = sizes[d];
  return named;
}

std::vector<std::map<std::string, int64_t>> SizePlan::at(
    const std::vector<SizeVector>& list) const {
  std::vector<std::map<std::string, int64_t>> named;
  for (const SizeVector& sizes : list) named.push_back(at(sizes));
  return named;
}

std::optional<int64_t> size_between(int64_t low, int64_t high) {
  if (high - low < 2) return std::nullopt;
  auto middle = static_cast<int64_t>(
      std::sqrt(static_cast<double>(low > 0 ? low : 1) * static_cast<double>(high)));
  middle = std::min(std::max(middle, low + 1), high - 1);
  if (middle % 2 == 0 && middle + 1 < high) ++middle;
  return middle;
}

std::optional<SizePlan> plan_sizes(const Workload& workload) {
  const size_t count = workload.dims.size();
  if (count == 0 || count > SizePlan::kMostDims) return std::nullopt;
  SizePlan plan;
  for (const DimVar& dim : workload.dims) {
    plan.dims.push_back(dim.var.name());
    plan.min.push_back(dim.min);
    plan.max.push_back(dim.max);
  }
  if (count == 1) {
    plan_one(workload.dims[0], plan);
  } else {
    plan_grid(workload.dims, plan);
  }
  return plan;
}

}  // namespace tilewright
