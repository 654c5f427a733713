// Parts of a graph that run on kernels of a database, without model files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "provider/trial.h"

namespace tilewright::provider {

struct Hits {
  std::vector<Part> parts;
  std::string why;              // other nodes are in none
  std::optional<double> ratio;  // of a trial: the graph's time with the parts over that without
};

// The parts whose workloads all have kernels in options.database that were tuned on this machine with as many threads.
// Nodes without are left out, and what is left is divided anew, until each part has all its kernels. There are none
// where a trial is asked for that the graph does not allow.
Hits find_hits(const GraphView& graph, const Options& options);

// Times the whole graph of fixed sizes, no node of which holds graphs, with the parts of find_hits() and without. Drops
// those that win the least until a run with the rest was measured to take at most 0.98 times that without, and writes
// down why.
void keep_winners(const GraphView& graph, const Options& options, Hits& hits);

}  // namespace tilewright::provider
