// Proves kernels in the emulator, where there is no GPU to run them on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "codegen/cuda_source.h"
#include "codegen/target.h"
#include "ir/tensor_expr.h"
#include "runtime/emulator/emulator.h"
#include "runtime/operands.h"
#include "tuner/emulated_instances.h"
#include "tuner/sketch.h"

namespace tilewright {

// What a program did on test data that a seed makes.
struct EmulatedRun {
  std::string problem;  // the fault or the wrong element; empty when it is right
  EmulatorCounters counters;
};

// Runs a program of the workload at these dynamic dimensions and compares the elements of
// its output with the oracle (4096 of them where all would take seconds). Throws ToolchainError without a C++ compiler.
EmulatedRun run_emulated(const Workload& workload, const CudaSource& source,
                         const std::map<std::string, int64_t>& dims, uint64_t seed);
// The same on operands of that seed, which keep the output.
EmulatedRun run_emulated(const Workload& workload, const CudaSource& source,
                         const std::map<std::string, int64_t>& dims, uint64_t seed,
                         OperandSet& operands);

struct EmulatedCheck {
  std::string instance;  // the spec of what was run; empty when nothing small takes the config
  EmulatedRun run;       // at its largest sizes; the problem of the first sizes that have one
  // As MeasureResult::rows_identity. What work is shared out by the number of rows has none, whatever
  // the bits of a small instance.
  std::string rows = {};

  bool passed() const { return !instance.empty() && run.problem.empty(); }
};

// The spec of the instance on which a config would be checked; empty when nothing small takes it.
std::string emulated_instance(const Workload& workload, const Target& target, const Sketch& sketch,
                              const std::string& config);
// Checks a config on the largest instance of its workload that the emulator runs in seconds, on
// ordinary and on hard values; of dynamic dimensions at a few sizes of theirs.
EmulatedCheck check_emulated(EmulatedInstances& instances, const Target& target,
                             const Sketch& sketch, const std::string& config);
// The same for one config of a workload.
EmulatedCheck check_emulated(const Workload& workload, const Target& target, const Sketch& sketch,
                             const std::string& config);

}  // namespace tilewright
