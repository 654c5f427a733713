// Mutants of CUDA kernels, run in the emulator.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/mutation/mutants.h"

namespace tilewright::mutation {

// Small workloads, each after its target: "cuda:sm_80 matmul:…".
const std::vector<std::string>& gpu_workloads();

// Runs the mutant of that seed at the sizes at which configs are checked. It is refused when the
// emulator reports a fault, or when the comparison with the oracle finds a wrong element. It is
// equal when all elements of its outputs equal the kernel's, for other data and orders of threads.
Mutant run_gpu_mutant(uint64_t seed, const Choice& choice = {});

// A stored kernel of a pipeline: a golden one, of tests/tuner/golden_gpu_kernels.json.
struct StoredKernel {
  std::string family, name, spec, target, config;
};
// Kernels of a file of that form.
std::vector<StoredKernel> stored_kernels(const std::string& file);

// All mutants of a stored kernel with one fault of its pipeline each, on the instance on which the
// kernel is checked. Of many, every `step`-th one.
std::vector<Mutant> pipeline_mutants(const StoredKernel& kernel, size_t step = 1,
                                     const std::string& kind = "");

// The check of the kernel itself.
struct Validation {
  double seconds = 0;   // of processors, compilers included
  std::string problem;  // why it does not pass; empty if it does
};
Validation validate(const StoredKernel& kernel);

}  // namespace tilewright::mutation
