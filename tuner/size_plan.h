// At which sizes of dynamic dimensions kernels are measured.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/tensor_expr.h"

namespace tilewright {

// A size of each dimension of a plan, in its order.
using SizeVector = std::vector<int64_t>;

// Sizes in ascending order, the first dimension's before the others. Of one dimension `learnt` has
// both ends of the range, powers of two and an odd size between each two of them; of several it is a
// grid of such sizes, as fine as their number allows. `tuned` are some of these; `held_out` lie
// between them and are where what was learnt is verified.
struct SizePlan {
  std::vector<std::string> dims;
  SizeVector min, max;
  // Every candidate is timed there; at most most_tuned(), the largest sizes come last.
  std::vector<SizeVector> tuned;
  std::vector<SizeVector> learnt;  // the finalists are timed there; at most most_learnt()
  // One between each two neighbours of `learnt` that have room, of several dimensions in the middle
  // of each cell of the grid.
  std::vector<SizeVector> held_out;

  static constexpr size_t kMostDims = 4;
  static constexpr size_t most_tuned(size_t dims) { return dims < 3 ? 5 : 3 + dims; }
  static constexpr size_t most_learnt(size_t dims) { return dims == 1 ? 17 : 27; }

  // The workload's dynamic dimensions at these sizes.
  std::map<std::string, int64_t> at(const SizeVector& sizes) const;
  std::vector<std::map<std::string, int64_t>> at(const std::vector<SizeVector>& list) const;
};

// Nothing for a workload that has no dynamic dimension, or more than kMostDims.
std::optional<SizePlan> plan_sizes(const Workload& workload);

// A size between two others, about as many times larger than the one as smaller than the other, and
// odd where possible; nothing where there is none.
std::optional<int64_t> size_between(int64_t low, int64_t high);

}  // namespace tilewright
