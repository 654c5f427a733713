// Ranks candidates by the model alone. Nothing is run, and the records say so.
#pragma once

#include <atomic>
#include <vector>

#include "base/error.h"
#include "tuner/search/tuner.h"

namespace tilewright {

// The store holds no model for ranking; a tuning run must come first.
class NoModelError : public Error {
 public:
  using Error::Error;
};

// Searches every workload with the stored model of `identity` instead of measurements. Compiles the
// few best candidates and stores them as records marked `offline`. Their times are the model's
// predictions, scaled by the fastest kernel measured on the target (of the same operator, if any).
// They are good for ranking only. Results have `predicted` set.
//
// `options.trials` is the number of candidates that the model ranks per workload; the measurer's
// options are not read. A CUDA target uses the analytical model instead (tuner/search/gpu_offline.h).
// Throws NoModelError if the store holds no model of a CPU target, and ToolchainError without a
// compiler.
std::vector<TuneResult> rank_offline(const std::vector<Workload>& workloads, const Target& target,
                                     const database::TargetIdentity& identity,
                                     database::Store& store, const TuneOptions& options,
                                     const std::atomic<bool>& cancelled,
                                     const ProgressFn& progress = {});

}  // namespace tilewright
