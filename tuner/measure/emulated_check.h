// Checks kernels in the emulator, for machines without a GPU.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "emulator/emulator.h"
#include "ir/tensor_expr.h"
#include "kernel/cuda_source.h"
#include "kernel/target.h"
#include "runtime/tensor/operands.h"
#include "tuner/measure/emulated_instances.h"
#include "tuner/sketch.h"

namespace tilewright {

// The outcome of a program on test data generated from a seed.
struct EmulatedRun {
  std::string problem;  // the fault or the wrong element; empty if correct
  EmulatorCounters counters;
};

// Runs a program of the workload at these dynamic dimensions and compares its output with the
// oracle. Compares every element, or 4096 of them if comparing all would take seconds. Throws
// ToolchainError without a C++ compiler.
EmulatedRun run_emulated(const Workload& workload, const CudaSource& source,
                         const std::map<std::string, int64_t>& dims, uint64_t seed);
// The same on given operands made from that seed; they keep the output.
EmulatedRun run_emulated(const Workload& workload, const CudaSource& source,
                         const std::map<std::string, int64_t>& dims, uint64_t seed,
                         OperandSet& operands);

struct EmulatedCheck {
  std::string instance;  // the spec that ran; empty if no small instance takes the config
  EmulatedRun run;       // at the largest sizes; `problem`: of the first sizes that have one
  // See MeasureResult::rows_identity. Empty if the work is shared out by the number of rows,
  // whatever the bits of a small instance.
  std::string rows = {};

  bool passed() const { return !instance.empty() && run.problem.empty(); }
};

// The spec of the instance on which a config would be checked; empty if no small instance takes it.
std::string emulated_instance(const Workload& workload, const Target& target, const Sketch& sketch,
                              const std::string& config);
// Checks a config on the first of its workload's instances that takes it, which the emulator runs
// in seconds. The check uses ordinary and hard values, and a few sizes of the dynamic dimensions.
EmulatedCheck check_emulated(EmulatedInstances& instances, const Target& target,
                             const Sketch& sketch, const std::string& config);
// The same for a single config of a workload.
EmulatedCheck check_emulated(const Workload& workload, const Target& target, const Sketch& sketch,
                             const std::string& config);

}  // namespace tilewright
