// The processors that this process may run on, and pinning to them.
#pragma once

#include <vector>

namespace tilewright {

// The processors that the process was allowed to use when this was first called, one of each
// physical core before their second hardware threads. Never empty.
const std::vector<int>& available_cpus();
// Physical cores among them.
int available_cores();

// Lets the calling thread run on one processor, or on all of available_cpus(). False when the
// system refuses.
bool pin_current_thread(int cpu);
bool unpin_current_thread();

}  // namespace tilewright
