// Kernels that were made elsewhere, made here: of what came by a merge the configs are facts that
// can be tried, and the machine code is somebody else's.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "database/store.h"
#include "tuner/measurer.h"

namespace tilewright {

struct RebuildReport {
  int64_t rebuilt = 0;  // kernels that were compiled here, found right and stored
  int64_t failed = 0;   // that did not compile, were wrong, or are of an unknown sketch
  int64_t tables = 0;   // dispatch tables of kernels that were all rebuilt
  std::vector<std::string> reasons = {};  // of the failures, a line each
};

// For each workload with kernels of this target that must not run (Store::artifact refuses them): the
// fastest that proves right, the untuned default, and those of its dispatch table are generated of the
// workload, the sketch and the config, compiled, checked and timed as a trial is, and stored as made
// here. Nothing of the stored code or source is used. `measurer` must be for `threads` threads.
RebuildReport rebuild(const Target& target, const database::TargetIdentity& identity, int threads,
                      const std::string& tool_version, database::Store& store, Measurer& measurer,
                      const std::atomic<bool>& cancelled);

}  // namespace tilewright
