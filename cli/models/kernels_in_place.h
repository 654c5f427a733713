// Kernels chosen by their times inside the model.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/lookup.h"
#include "database/store.h"

namespace tilewright::cli {

// A search times a kernel alone: its operands stay in the caches, and in pages that it has just touched.
// Inside a model other nodes run in between, so of two kernels whose times are close the other one may be faster.
struct PlacedKernels {
  std::map<std::string, std::string> records;  // by the hash of the workload
  size_t compared = 0;                         // workloads with several kernels
  size_t changed = 0;  // those whose fastest kernel alone is not the fastest here
};

// Races the kernels of each workload that the database kept, at most four, against the best one, all workloads at
// once: two model files run in turns on random inputs, for at most so many seconds. A kernel wins by 2% in most
// rounds. Workloads with dynamic sizes keep their dispatch tables. The files are written beside `file` and removed.
PlacedKernels choose_in_place(const database::Store& store, const std::vector<Workload>& workloads,
                              const database::ServingContent& content, const std::string& file,
                              const CommonOptions& options, double seconds,
                              const std::atomic<bool>& interrupted);

}  // namespace tilewright::cli
