// Processors for threads that are pinned: no two of them, in whatever process, get the same one.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/files.h"

namespace tilewright {

// A processor that nobody else has claimed: an advisory lock (flock) on its folder in sysfs, which ends
// with the object or its process. It keeps nobody off the processor but others who claim.
class CpuClaim {
 public:
  CpuClaim() = default;
  // The first that is free of available_cpus(), from the one with index `first` on and then from the
  // beginning. None where all are taken, or where the system has no such folders.
  static CpuClaim take(size_t first = 0);
  // All that are free.
  static std::vector<CpuClaim> take_idle();

  int cpu() const { return cpu_; }  // -1: none
  // Lets the calling thread run there alone, or on all of available_cpus() where it is none.
  void pin() const;

 private:
  CpuClaim(int cpu, UniqueFd lock) : cpu_(cpu), lock_(std::move(lock)) {}

  int cpu_ = -1;
  UniqueFd lock_;
};

}  // namespace tilewright
