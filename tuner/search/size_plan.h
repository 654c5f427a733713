// The sizes of dynamic dimensions at which kernels are measured.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/tensor_expr.h"

namespace tilewright {

// One size per dimension of a plan, in its order.
using SizeVector = std::vector<int64_t>;

// Sizes in ascending order, by the first dimension first. With one dimension, `learnt` has both
// ends of the range, powers of two, and an odd size between each two of these. With several, it is
// a grid of such sizes, as fine as their number allows. `tuned` are some of these. `held_out` lie
// between them and verify what was learned.
struct SizePlan {
  std::vector<std::string> dims;
  SizeVector min, max;
  // Every candidate is timed at these sizes, at most most_tuned(); the largest sizes come last.
  std::vector<SizeVector> tuned;
  std::vector<SizeVector> learnt;  // for the finalists; at most most_learnt()
  // One size between each two neighbours of `learnt` that have room; with several dimensions, the
  // middle of each grid cell.
  std::vector<SizeVector> held_out;

  static constexpr size_t kMostDims = 4;
  static constexpr size_t most_tuned(size_t dims) { return dims < 3 ? 5 : 3 + dims; }
  static constexpr size_t most_learnt(size_t dims) { return dims == 1 ? 17 : 27; }

  // The workload's dynamic dimensions at these sizes, by name.
  std::map<std::string, int64_t> at(const SizeVector& sizes) const;
  std::vector<std::map<std::string, int64_t>> at(const std::vector<SizeVector>& list) const;
};

// Nothing for a workload without dynamic dimensions, or with more than kMostDims.
std::optional<SizePlan> plan_sizes(const Workload& workload);

// A size near the geometric mean of two others, odd if possible; nothing if there is none.
std::optional<int64_t> size_between(int64_t low, int64_t high);

}  // namespace tilewright
