// The sizes at which a kernel for ranges of sizes is checked.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/size_facts.h"
#include "ir/tensor_expr.h"

namespace tilewright {

// How long the checks besides that of the largest sizes may take together.
struct CheckBudget {
  double times = 2.5;      // so many times what the largest sizes take,
  double seconds = 0.02;   // or as long as nobody notices, whichever is more
  size_t least_points = 6;  // whatever they take
};

// Where a kernel is checked besides the largest sizes, at which it is timed, the cheap ones first:
// around the first sizes at which its code takes another way (`facts`: multiples of its tiles, and one
// or two to each side), the last of these, both ends of each range, one inside each end, and primes.
// Several dimensions are combined so that each of their sizes meets some of the others'. Where
// nothing is known of the kernel, multiples of common tiles stand in. At most kMostCheckPoints, fewer
// where the budget does not last. Empty without dynamic dimensions.
std::vector<std::map<std::string, int64_t>> check_points(const Workload& workload,
                                                         const SizeFacts& facts = {},
                                                         const CheckBudget& budget = {});

constexpr size_t kMostCheckPoints = 24;

}  // namespace tilewright
