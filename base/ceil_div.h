// Division of sizes, rounded up.
#pragma once

#include <cstdint>

namespace tilewright {

// The number of pieces of `size` that cover `length`. Requires length >= 0 and size > 0.
constexpr int64_t ceil_div(int64_t length, int64_t size) { return (length + size - 1) / size; }
// The least multiple of `size` that is not less than `length`. The same requirements hold.
constexpr int64_t round_up(int64_t length, int64_t size) { return ceil_div(length, size) * size; }

}  // namespace tilewright
