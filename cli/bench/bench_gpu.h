// tune-cli bench for CUDA targets: stored kernels beside the libraries of the GPU.
#pragma once

#include "cli/bench/bench_report.h"
#include "cli/lookup.h"
#include "cli/sizes.h"

namespace tilewright::cli {

// Checks and times the best kernel of each workload in a worker process, in turns with the libraries
// that are found there, and then the untuned default where the database has its kernel. With `kinds`
// the best stored kernel of each kind is checked and timed, too. Throws ToolchainError without a GPU.
BenchReport bench_gpu(const std::vector<Workload>& workloads, const Sizes& sizes,
                      const Lookup& lookup, const database::Store& store, int rounds, uint64_t seed,
                      bool kinds);

}  // namespace tilewright::cli
