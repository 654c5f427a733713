// Facts about a lowered program's dynamic dimensions: the sizes at which its code takes another
// path, and accesses that stay in bounds at every size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/stmt.h"

namespace tilewright {

// The code takes another path at `first` and at each `step` after it: one tile more, or a shorter
// tail.
struct SizeStep {
  int64_t step = 0;   // 0: only at `first`
  int64_t first = 0;  // a size within the dimension's range
  bool operator==(const SizeStep&) const = default;
};

struct SizeFacts {
  // Steps per dynamic dimension in the program's order, at most kMostSteps each.
  std::vector<std::vector<SizeStep>> steps = {};
  // Loads and stores in the program's text, and those that static analysis proves to stay within
  // their buffers for all sizes of the dimensions.
  int accesses = 0, proved = 0;

  static constexpr size_t kMostSteps = 8;
  bool operator==(const SizeFacts&) const = default;
};

// Both require a program without blocks.
SizeFacts size_facts(const Program& program);

// The loads and stores that the analysis does not prove to stay within their buffers, as text:
// "C[i, j]" with the variables of the program. `accesses` gets the total number. A prefetch is no
// access.
std::vector<std::string> unproved_accesses(const Program& program, int* accesses = nullptr);

}  // namespace tilewright
