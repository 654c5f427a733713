// Work on all of the machine's cores.
#pragma once

#include <cstddef>
#include <functional>

namespace tilewright {

/// Calls `work` once for each index below `count`, on as many threads as there are cores, in no order.
/// Returns when all are done; where calls threw, what that of the least index threw is thrown again.
void for_each_in_parallel(size_t count, const std::function<void(size_t)>& work);

}  // namespace tilewright
