// Chooses kernels for GPUs that are not here: ranked by the analytical model, compiled by NVRTC,
// proved in the emulator.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "tuner/patient_writer.h"
#include "tuner/tuner.h"

namespace tilewright {

// Searches one workload with the model in the place of measurements. Those it likes best are
// compiled; what spills registers is dropped, and the others are ranked again by the registers that
// they really take. Of these the first that are right in the emulator are stored, marked `offline`,
// with the cubin, how it is launched, and what the compiler made of it. Of the options, `trials` is
// how many candidates the model looks at, until `until` (steady_seconds; 0: no limit); the first of them
// are `guesses`, configs that were good for a like workload.
//
// With dynamic dimensions the search takes turns at the tuned sizes of their plan, and a dispatch
// table is learnt (tuner/dispatch.h) from what the model says at its sizes of those that were
// compiled and of the untuned default; each kernel that stands in it was right in the emulator. Under
// `one_order` it has one kernel, whose rows the emulator found the same at all sizes. Throws
// ToolchainError without NVRTC or a C++ compiler.
TuneResult rank_gpu_offline(const Workload& workload, const Target& target,
                            const database::TargetIdentity& identity, PatientWriter& writer,
                            const std::string& run_id, const TuneOptions& options,
                            const std::vector<std::string>& guesses, uint64_t seed, double until,
                            const std::atomic<bool>& cancelled);

}  // namespace tilewright
