// Ranks candidates by the model alone. Nothing is run, and the records say so.
#pragma once

#include <atomic>
#include <vector>

#include "tuner/measure/measurer.h"
#include "tuner/search/tuner.h"

namespace tilewright {

// `options` for the compilers of rank_offline(): nothing is timed meanwhile, so each core compiles, and a
// kernel may take long on a busy machine.
MeasureOptions offline_options(MeasureOptions options);

// Searches every workload with models instead of measurements: the analytical one, and on a CPU the
// stored model of `identity`, or the shipped one where none is stored (docs/search.md). Compiles the few
// best candidates and stores them as records marked `offline`, with the analytical model's seconds, which
// are good for ranking only. Results have `predicted` set.
//
// `options.trials` is the number of candidates that are looked at per workload; the measurer's options are
// not read. The workers of `compilers` compile what a CUDA target needs (tuner/search/gpu_offline.h).
// Throws ToolchainError without a compiler.
std::vector<TuneResult> rank_offline(const std::vector<Workload>& workloads, const Target& target,
                                     const database::TargetIdentity& identity,
                                     database::Store& store, LocalMeasurer& compilers,
                                     const TuneOptions& options, const std::atomic<bool>& cancelled,
                                     const ProgressFn& progress = {});

}  // namespace tilewright
