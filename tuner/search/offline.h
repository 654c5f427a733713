// Ranks candidates by the model alone. Nothing is run, and the records say so.
#pragma once

#include <atomic>
#include <vector>

#include "tuner/measure/measurer.h"
#include "tuner/search/tuner.h"

namespace tilewright {

// Searches every workload with the stored model of `identity` instead of measurements, or with the
// shipped one where none is stored. Compiles the few best candidates and stores them as records marked
// `offline`. Their times are the model's predictions, scaled by the fastest kernel measured on the
// target (of the same operator, if any), or else by the roofline. They are good for ranking only.
// Results have `predicted` set.
//
// `options.trials` is the number of candidates that the model ranks per workload; the measurer's
// options are not read. A CUDA target uses the analytical model instead (tuner/search/gpu_offline.h).
// Its kernels are compiled by the workers of
// `compilers`. Throws ToolchainError without a compiler.
std::vector<TuneResult> rank_offline(const std::vector<Workload>& workloads, const Target& target,
                                     const database::TargetIdentity& identity,
                                     database::Store& store, Measurer& compilers,
                                     const TuneOptions& options, const std::atomic<bool>& cancelled,
                                     const ProgressFn& progress = {});

}  // namespace tilewright
