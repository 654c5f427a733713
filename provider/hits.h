// Parts of a graph that run on kernels of a database, without model files.
#pragma once

#include <string>
#include <vector>

#include "provider/trial.h"

namespace tilewright::provider {

struct Hits {
  std::vector<Part> parts;
  std::string why;  // other nodes are in none
};

// The parts whose workloads all have kernels in options.database that were tuned on this machine with as many threads.
// Nodes without are left out, and what is left is divided anew, until each part has all its kernels.
Hits find_hits(const GraphView& graph, const Options& options);

// Times the whole graph with the parts and without, and drops those that win the least until a run with the rest
// is surely faster. Returns why some or all of them were dropped, or "".
std::string keep_winners(const GraphView& graph, const Options& options, std::vector<Part>& parts);

}  // namespace tilewright::provider
