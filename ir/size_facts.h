// What a lowered program says of its dynamic dimensions: the sizes at which its code takes another
// way, and the accesses that stay within their buffers at every size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/stmt.h"

namespace tilewright {

// The code takes another way at `first` and at each `step` after it: one tile more, or a tail less.
struct SizeStep {
  int64_t step = 0;   // 0: at `first` alone
  int64_t first = 0;  // a size within the dimension's range
  bool operator==(const SizeStep&) const = default;
};

struct SizeFacts {
  // Of each dynamic dimension in the program's order, at most kMostSteps.
  std::vector<std::vector<SizeStep>> steps = {};
  // Loads and stores in the text of the program, and those proved to stay within their buffers for
  // all sizes of the dimensions.
  int accesses = 0, proved = 0;

  static constexpr size_t kMostSteps = 8;
  bool operator==(const SizeFacts&) const = default;
};

// Both require a program without blocks.
SizeFacts size_facts(const Program& program);

// The loads and stores that are not proved to stay within their buffers, as text: "C[i, j]" with the
// variables of the program. `accesses` gets the number of all. A prefetch is no access.
std::vector<std::string> unproved_accesses(const Program& program, int* accesses = nullptr);

}  // namespace tilewright
