// Chooses kernels for GPUs that are not present: ranked by the analytical model, compiled by NVRTC,
// checked in the emulator.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "tuner/measure/measurer.h"
#include "tuner/search/patient_writer.h"
#include "tuner/search/tuner.h"

namespace tilewright {

// Searches one workload with the model instead of measurements. The candidates that it ranks best
// are compiled. Kernels that spill registers are dropped; the others are ranked again by their
// actual registers. The best of each kind (cuda_kind) and then the next ones, three in all and at most
// `options.finalists`, are stored as far as they are correct in the emulator, marked `offline`. A record
// has the cubin, its launches and the compiler's facts. `options.trials` limits the candidates that the model ranks,
// and `until` (steady_seconds; 0: no limit) the time. `guesses` come first: configs that were good
// for a similar workload.
//
// With dynamic dimensions the search alternates between the tuned sizes of their plan. A dispatch
// table is learned (tuner/search/dispatch.h) from the model's times at the plan's sizes, for the compiled
// kernels and the untuned default. Each kernel in it was correct in the emulator. With `one_order`
// the table has one kernel, whose rows were equal at all sizes that the emulator ran. `compilers` are worker
// processes: one that crashes costs its candidate. Throws ToolchainError without NVRTC or a C++ compiler.
TuneResult rank_gpu_offline(const Workload& workload, const Target& target,
                            const database::TargetIdentity& identity, PatientWriter& writer,
                            LocalMeasurer& compilers, const std::string& run_id,
                            const TuneOptions& options, const std::vector<std::string>& guesses,
                            uint64_t seed, double until, const std::atomic<bool>& cancelled);

}  // namespace tilewright
