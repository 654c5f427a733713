// At which sizes of a dynamic dimension kernels are measured.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/tensor_expr.h"

namespace tilewright {

// Sizes in ascending order. `learnt` has both ends of the range, powers of two and an odd size
// between each two of them; `tuned` are some of these; `held_out` lie between them and are where
// what was learnt is verified.
struct SizePlan {
  std::string dim;
  int64_t min = 1, max = 1;
  std::vector<int64_t> tuned;     // every candidate is timed there; at most kMostTuned, max is last
  std::vector<int64_t> learnt;    // the finalists are timed there; at most kMostLearnt
  std::vector<int64_t> held_out;  // one between each two neighbours of `learnt` that have room

  static constexpr size_t kMostTuned = 5, kMostLearnt = 17;

  // The workload's dynamic dimension at that size.
  std::map<std::string, int64_t> at(int64_t size) const { return {{dim, size}}; }
};

// Nothing for a workload that has no dynamic dimension, or several.
std::optional<SizePlan> plan_sizes(const Workload& workload);

// A size between two others, about as many times larger than the one as smaller than the other, and
// odd where possible; nothing where there is none.
std::optional<int64_t> size_between(int64_t low, int64_t high);

}  // namespace tilewright
