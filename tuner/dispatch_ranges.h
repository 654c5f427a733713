// Which kernel to run in which ranges of sizes, from times at some of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tuner/size_plan.h"

namespace tilewright {

// Seconds of kernels at sizes, measured in turns at each of them.
struct SizeTimes {
  std::vector<SizeVector> sizes;             // no two the same
  std::vector<std::vector<double>> seconds;  // of each kernel, then of each size; 0: not measured
  std::vector<double> untuned;  // of the kernel that none may be slower than; 0: unknown
};

struct KernelRange {
  SizeVector first, last;  // both included
  size_t kernel = 0;

  bool holds(const SizeVector& sizes) const;
  bool operator==(const KernelRange&) const = default;
};

// Within which share of its time another kernel counts as no slower.
inline constexpr double kDispatchNoise = 0.02;

// Whether the kernel is slower than the untuned one at the size of that index.
bool loses_to_untuned(const SizeTimes& times, size_t kernel, size_t size);

// The ranges, `most` at most, that cover all sizes from `min` to `max` and have the least sum of
// relative slowdowns over the measured ones: how much longer each kernel takes than the fastest one
// there. Of several dimensions they come of cuts through one dimension after another, each through
// the whole of what was cut before. No kernel stands at a size where it was not measured, or where it
// loses to the untuned one; a range more must win more than the noise. Of equal kernels the earlier
// one is taken. Boundaries lie between measured sizes, as many times larger than the one
// as smaller than the other. Empty when so few ranges of these kernels cannot cover all sizes.
std::vector<KernelRange> learn_ranges(const SizeTimes& times, const SizeVector& min,
                                      const SizeVector& max, size_t most);

// The kernel of the range that holds the sizes.
size_t kernel_at(const std::vector<KernelRange>& ranges, const SizeVector& sizes);

// The sum over the sizes of how much longer the ranges' kernels take than the fastest, as shares.
double total_slowdown(const SizeTimes& times, const std::vector<KernelRange>& ranges);

}  // namespace tilewright
