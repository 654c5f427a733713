#include "tuner/search/dispatch_ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"

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

// How much longer each kernel takes than the fastest at each size, as a share; kNever where it is
// not allowed.
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

int64_t boundary(int64_t below, int64_t above) {
  const auto middle = static_cast<int64_t>(
      std::sqrt(static_cast<double>(std::max<int64_t>(below, 1)) * static_cast<double>(above)));
  return std::clamp(middle, below, above - 1);
}

// Measured sizes inside one box, by index, ascending.
using Group = std::vector<size_t>;

// A plane between the sizes of a group.
struct Cut {
  size_t dim = 0;
  int64_t below = 0, above = 0;  // the sizes next to the plane
};

// Finds the best cuts for groups of sizes. Each group is solved once, whichever cuts led to it.
class CutSearch {
 public:
  CutSearch(const SizeTimes& times, size_t most)
      : times_(times), most_(most), costs_(slowdowns(times)) {}

  std::vector<KernelRange> ranges(const SizeVector& min, const SizeVector& max);

 private:
  // The best cover of a group with a given number of ranges: one kernel, or a cut.
  struct Cover {
    double cost = kNever;
    size_t kernel = 0;  // for one range
    Cut cut = {};       // for several ranges
    size_t ranges_below = 0;
  };
  using Covers = std::vector<Cover>;  // index: number of ranges - 1

  const Covers& covers(const Group& group);
  Cover by_one(const Group& group) const;
  std::vector<Cut> cuts_of(const Group& group) const;
  void try_cut(const Group& group, const Cut& cut, Covers& covers);
  std::pair<Group, Group> parts(const Group& group, const Cut& cut) const;
  void add_ranges(const Group& group, size_t count, KernelRange box,
                  std::vector<KernelRange>& ranges);

  const SizeTimes& times_;
  const size_t most_;
  std::vector<std::vector<double>> costs_;
  std::map<Group, Covers> known_;
};

CutSearch::Cover CutSearch::by_one(const Group& group) const {
  Cover best;
  for (size_t k = 0; k < costs_.size(); ++k) {
    double cost = kCostOfARange;
    for (size_t s : group) cost += costs_[k][s];
    if (cost < best.cost) best = {cost, k, {}, 0};
  }
  return best;
}

std::vector<Cut> CutSearch::cuts_of(const Group& group) const {
  std::vector<Cut> cuts;
  for (size_t d = 0; d < times_.sizes[group[0]].size(); ++d) {
    std::set<int64_t> sizes;
    for (size_t s : group) sizes.insert(times_.sizes[s][d]);
    for (auto above = std::next(sizes.begin()); above != sizes.end(); ++above) {
      cuts.push_back({d, *std::prev(above), *above});
    }
  }
  return cuts;
}

std::pair<Group, Group> CutSearch::parts(const Group& group, const Cut& cut) const {
  std::pair<Group, Group> parts;
  for (size_t s : group) {
    (times_.sizes[s][cut.dim] <= cut.below ? parts.first : parts.second).push_back(s);
  }
  return parts;
}

void CutSearch::try_cut(const Group& group, const Cut& cut, Covers& covers) {
  const auto [below, above] = parts(group, cut);
  const Covers& first = this->covers(below);
  const Covers& second = this->covers(above);
  for (size_t i = 0; i < first.size(); ++i) {
    for (size_t j = 0; j < second.size() && i + j + 1 < covers.size(); ++j) {
      const double cost = first[i].cost + second[j].cost;
      if (cost < covers[i + j + 1].cost) covers[i + j + 1] = {cost, 0, cut, i + 1};
    }
  }
}

const CutSearch::Covers& CutSearch::covers(const Group& group) {
  const auto known = known_.find(group);
  if (known != known_.end()) return known->second;
  Covers covers(std::min(most_, group.size()));
  covers[0] = by_one(group);
  // Each range has a cost: if one kernel is nearly as fast as the fastest, no cut can win.
  if (covers.size() > 1 && covers[0].cost > 2 * kCostOfARange) {
    for (const Cut& cut : cuts_of(group)) try_cut(group, cut, covers);
  }
  return known_.emplace(group, std::move(covers)).first->second;
}

void CutSearch::add_ranges(const Group& group, size_t count, KernelRange box,
                           std::vector<KernelRange>& ranges) {
  const Cover cover = known_.at(group)[count - 1];
  if (count == 1) {
    box.kernel = cover.kernel;
    ranges.push_back(std::move(box));
    return;
  }
  const Cut& cut = cover.cut;
  const auto [below, above] = parts(group, cut);
  KernelRange rest = box;
  box.last[cut.dim] = boundary(cut.below, cut.above);
  rest.first[cut.dim] = box.last[cut.dim] + 1;
  add_ranges(below, cover.ranges_below, std::move(box), ranges);
  add_ranges(above, count - cover.ranges_below, std::move(rest), ranges);
}

std::vector<KernelRange> CutSearch::ranges(const SizeVector& min, const SizeVector& max) {
  Group all;
  for (size_t s = 0; s < times_.sizes.size(); ++s) all.push_back(s);
  const Covers& found = covers(all);
  size_t best = 0;
  for (size_t r = 1; r < found.size(); ++r) {
    if (found[r].cost < found[best].cost) best = r;
  }
  std::vector<KernelRange> ranges;
  if (found[best].cost != kNever) add_ranges(all, best + 1, {min, max, 0}, ranges);
  return ranges;
}

}  // namespace

bool KernelRange::holds(const SizeVector& sizes) const {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < first[d] || sizes[d] > last[d]) return false;
  }
  return true;
}

bool loses_to_untuned(const SizeTimes& times, size_t kernel, size_t size) {
  const double untuned = times.untuned[size];
  return untuned > 0 && times.seconds[kernel][size] > (1 + kDispatchNoise) * untuned;
}

std::vector<KernelRange> learn_ranges(const SizeTimes& times, const SizeVector& min,
                                      const SizeVector& max, size_t most) {
  TW_ASSERT(most >= 1 && !times.sizes.empty(), "there is a range and a measured size");
  return CutSearch(times, most).ranges(min, max);
}

size_t kernel_at(const std::vector<KernelRange>& ranges, const SizeVector& sizes) {
  for (const KernelRange& range : ranges) {
    if (range.holds(sizes)) return range.kernel;
  }
  internal_error(__FILE__, __LINE__, "sizes", "they lie beyond the ranges");
}

double total_slowdown(const SizeTimes& times, const std::vector<KernelRange>& ranges) {
  double sum = 0;
  for (size_t s = 0; s < times.sizes.size(); ++s) {
    sum += times.seconds[kernel_at(ranges, times.sizes[s])][s] / fastest(times, s) - 1;
  }
  return sum;
}

}  // namespace tilewright
