// Sizes of the hardware that several GPU rules use.
#pragma once

#include <cstdint>

namespace tilewright {

inline constexpr int64_t kAccessBits = 128;     // the widest memory access of a thread
inline constexpr int64_t kWordBits = 32;        // per register
inline constexpr int64_t kFragmentColumns = 8;  // of accumulators()
inline constexpr int64_t kSpanBytes = 128;      // the widest swizzle atom
inline constexpr int64_t kPendingStages = 3;    // from here on a wgmma group may stay in flight

}  // namespace tilewright
