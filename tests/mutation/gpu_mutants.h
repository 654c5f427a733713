// Mutants of CUDA kernels, in the emulator.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/mutation/mutants.h"

namespace tilewright::mutation {

// Small workloads, with the target of each: "cuda:sm_80 matmul:…".
const std::vector<std::string>& gpu_workloads();

// The mutant of that seed. It is refused where the emulator names a fault or the comparison with
// the oracle a wrong element, at the sizes at which configs are checked; it is equal where all
// elements of the outputs are those of the kernel, for other data and orders of threads.
Mutant run_gpu_mutant(uint64_t seed, const Choice& choice = {});

}  // namespace tilewright::mutation
