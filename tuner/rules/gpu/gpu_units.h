// Sizes of the hardware that several GPU rules use, and the order of their options.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

namespace tilewright {

inline constexpr int64_t kAccessBits = 128;     // the widest memory access of a thread
inline constexpr int64_t kWordBits = 32;        // per register
inline constexpr int64_t kFragmentColumns = 8;  // of accumulators()
inline constexpr int64_t kSpanBytes = 128;      // the widest swizzle atom
inline constexpr int64_t kPendingStages = 3;    // from here on a wgmma group may stay in flight

// Moves the first option with this property to the front, where the trial's default is; the others
// keep their order. Returns whether there is one.
template <class T, class Has>
bool gpu_put_first(std::vector<T>& options, const Has& has) {
  const auto first = std::find_if(options.begin(), options.end(), has);
  if (first == options.end()) return false;
  std::rotate(options.begin(), first, std::next(first));
  return true;
}

}  // namespace tilewright
