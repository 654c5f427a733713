// Rebuilds kernels that were made elsewhere. After a merge their configs can be tried, but their
// machine code is not trusted.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "database/store.h"
#include "kernel/target.h"
#include "tuner/measure/measurer.h"

namespace tilewright {

struct RebuildReport {
  int64_t rebuilt = 0;                    // compiled here, correct and stored
  int64_t failed = 0;                     // did not compile, or wrong
  int64_t skipped = 0;                    // found by another version of their sketch
  int64_t tables = 0;                     // dispatch tables with all kernels rebuilt
  std::vector<std::string> reasons = {};  // one line per failure or skipped kernel
};

// Rebuilds kernels of this target that must not run (Store::artifact refuses them). For each
// workload these are the fastest kernel that is correct, the untuned default, and the kernels of
// its dispatch table. Each is generated from the workload, the sketch and the config. It is
// compiled, checked and timed like a trial, and stored as made here. Stored code and source are not
// used. `measurer` must be for `threads` threads.
RebuildReport rebuild(const Target& target, const database::TargetIdentity& identity, int threads,
                      const std::string& tool_version, database::Store& store, Measurer& measurer,
                      const std::atomic<bool>& cancelled);

}  // namespace tilewright
