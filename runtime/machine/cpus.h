// The processors that this process may run on, and pinning to them.
#pragma once

#include <string>
#include <vector>

namespace tilewright {

// The processors that the process was allowed to use when this was first called, in the order in which
// threads take them (topology.h). Never empty.
const std::vector<int>& available_cpus();
// How many of them may run at once: the control group's quota of time (cpu.max) may be for fewer.
int available_threads();
// Physical cores among them, the performance cores of a hybrid chip, and no more than may run at once.
int available_cores();

// The processors' worth of time that control groups allow this process: the least along the path of
// its group, of version 1 or 2. 0: there is no limit. `root` stands before /proc and /sys.
double cpu_quota(const std::string& root = "");

// Lets the calling thread run on one processor, or on all of available_cpus(). False when the
// system refuses.
bool pin_current_thread(int cpu);
bool unpin_current_thread();

}  // namespace tilewright
