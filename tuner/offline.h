// Ranks candidates by the model alone: nothing is run, and the records say so.
#pragma once

#include <atomic>
#include <vector>

#include "ir/error.h"
#include "tuner/tuner.h"

namespace tilewright {

// The store holds no model that could rank: what a caller asked for needs a tuning run first.
class NoModelError : public Error {
 public:
  using Error::Error;
};

// Searches every workload with the stored model of `identity` in the place of measurements, and
// stores the few that it likes best, compiled, as records that are marked `offline`. Their times
// are what the model expects, scaled by the fastest kernel that was measured on the target (of the
// same operator where there is one): good for the order, not for a promise. Results carry
// `predicted`. Of the options, `trials` is how many candidates the model looks at for each workload;
// the measurer's are not read. For a CUDA target the analytical model takes the place of the stored
// one (tuner/gpu_offline.h). Throws NoModelError when the store holds no model of a CPU target, and
// ToolchainError without a compiler.
std::vector<TuneResult> rank_offline(const std::vector<Workload>& workloads, const Target& target,
                                     const database::TargetIdentity& identity,
                                     database::Store& store, const TuneOptions& options,
                                     const std::atomic<bool>& cancelled,
                                     const ProgressFn& progress = {});

}  // namespace tilewright
