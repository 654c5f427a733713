// Chooses a kernel for each range of sizes, from times at some of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tuner/search/size_plan.h"

namespace tilewright {

// Seconds of kernels at sizes, measured in turns at each size.
struct SizeTimes {
  std::vector<SizeVector> sizes;             // all distinct
  std::vector<std::vector<double>> seconds;  // by kernel, then by size; 0: not measured
  std::vector<double> untuned;               // of the baseline that none may lose to; 0: unknown
};

struct KernelRange {
  SizeVector first, last;  // both inclusive
  size_t kernel = 0;

  bool holds(const SizeVector& sizes) const;
  bool operator==(const KernelRange&) const = default;
};

// A kernel counts as no slower than another within this share of its time.
inline constexpr double kDispatchNoise = 0.02;

// Whether the kernel is slower than the untuned one at the size with that index.
bool loses_to_untuned(const SizeTimes& times, size_t kernel, size_t size);

// Returns at most `most` ranges that cover all sizes from `min` to `max`, with the least sum of
// relative slowdowns over the measured sizes. A slowdown is how much longer a kernel takes than the
// fastest one there. With several dimensions, the ranges come from nested cuts: each cut goes
// through one dimension of a whole part.
//
// No kernel is chosen at a size where it was not measured, or where it loses to the untuned one. An
// additional range must win more than the noise. Ties go to the earlier kernel. A boundary lies at
// the geometric mean of two neighbouring measured sizes. Empty if that many ranges of these kernels
// cannot cover all sizes.
std::vector<KernelRange> learn_ranges(const SizeTimes& times, const SizeVector& min,
                                      const SizeVector& max, size_t most);

// The kernel of the range that holds these sizes.
size_t kernel_at(const std::vector<KernelRange>& ranges, const SizeVector& sizes);

// Sum over the sizes of the relative slowdown: how much longer the range's kernel takes than the
// fastest.
double total_slowdown(const SizeTimes& times, const std::vector<KernelRange>& ranges);

}  // namespace tilewright
