// The sizes at which a kernel for ranges of sizes is checked.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/arith/size_facts.h"
#include "ir/tensor_expr.h"

namespace tilewright {

constexpr size_t kMostCheckPoints = 64;

// How long the checks besides that of the largest sizes may take together.
struct CheckBudget {
  double times = 2.5;                     // so many times what the largest sizes take,
  double seconds = 0.02;                  // or as long as nobody notices, whichever is more
  size_t least_points = 6;                // whatever they take
  size_t most_points = kMostCheckPoints;  // for each dynamic dimension that has tails
  // Whether a kernel has code of its own for each tail of a tile of few rows, as those for CPUs have.
  bool has_tails = true;
};

// Where a kernel is checked besides the largest sizes, at which it is timed, those first that tell most:
// around the first sizes at which its code takes another way (`facts`: multiples of its tiles, and one
// or two to each side), at each tail that a tile of few rows may leave, at parts of a tile, the last
// multiples, both ends of each range, one inside each end, primes, and the tails behind a whole tile; of a
// range of few sizes at all of them. Several dimensions are combined so that each of
// their sizes meets some of the others'. Where nothing is known of the kernel, multiples of common
// tiles stand in. Fewer where the budget does not last; empty without dynamic dimensions.
std::vector<std::map<std::string, int64_t>> check_points(const Workload& workload,
                                                         const SizeFacts& facts = {},
                                                         const CheckBudget& budget = {});

}  // namespace tilewright
