// Mutants of CUDA kernels, run in the emulator.
#pragma once

#include <cstdint>
#include <memory>
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

}  // namespace tilewright::mutation
