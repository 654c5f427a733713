// Parallel loops over all of the machine's cores.
#pragma once

#include <cstddef>
#include <functional>

namespace tilewright {

/// Calls `work` once for each index below `count`, on as many threads as there are cores, in any
/// order. Returns when all calls are done. If calls threw, rethrows the exception of the least
/// index.
void for_each_in_parallel(size_t count, const std::function<void(size_t)>& work);

}  // namespace tilewright
