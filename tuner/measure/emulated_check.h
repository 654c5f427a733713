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
#include "tuner/measure/exercise.h"
#include "tuner/sketch.h"

namespace tilewright {

// The outcome of a program on test data generated from a seed.
struct EmulatedRun {
  std::string problem;  // the fault or the wrong element; empty if correct
  EmulatorCounters counters;
};

// Runs a program of the workload at these dynamic dimensions and compares its output with the
// oracle. Compares every element, or 4096 of them if comparing all would take seconds. Threads run
// in the order of this number. Throws ToolchainError without a C++ compiler.
EmulatedRun run_emulated(const Workload& workload, const CudaSource& source,
                         const std::map<std::string, int64_t>& dims, uint64_t seed);
// The same on given operands made from that seed; they keep the output.
EmulatedRun run_emulated(const Workload& workload, const CudaSource& source,
                         const std::map<std::string, int64_t>& dims, uint64_t seed,
                         OperandSet& operands, uint64_t order = 1);

struct EmulatedCheck {
  std::string instance;  // the spec that ran; empty if no small instance takes the config
  EmulatedRun run;       // at the largest sizes; `problem`: of the first sizes that have one
  // See MeasureResult::rows_identity. Empty if the work is shared out by the number of rows,
  // whatever the bits of a small instance.
  std::string rows = {};
  Exercise exercise = {};
  int orders = 0;  // of threads, in which it ran

  bool passed() const { return !instance.empty() && run.problem.empty(); }
};

// A workload small enough for the emulator, with its kernels for a config.
struct SmallInstance {
  Workload workload;
  Program program;
  CudaSource source;
  Exercise exercise;
};

// A config on the instance on which it is checked; nothing if no small instance takes it.
std::optional<SmallInstance> small_instance_for(EmulatedInstances& instances, const Target& target,
                                                const Sketch& sketch, const std::string& config);
// Checks the kernels of an instance.
EmulatedCheck check_instance(const SmallInstance& small);

// The spec of the instance on which a config would be checked; empty if no small instance takes it.
std::string emulated_instance(const Workload& workload, const Target& target, const Sketch& sketch,
                              const std::string& config);
// Checks a config on the first of its workload's instances that takes it, or on a longer one that
// goes around rings of stages twice and gives persistent blocks two tiles, as far as the emulator
// runs that in seconds. The check uses ordinary and hard values in two orders of threads, and a few
// sizes of the dynamic dimensions.
EmulatedCheck check_emulated(EmulatedInstances& instances, const Target& target,
                             const Sketch& sketch, const std::string& config);
// The same for a single config of a workload.
EmulatedCheck check_emulated(const Workload& workload, const Target& target, const Sketch& sketch,
                             const std::string& config);

}  // namespace tilewright
