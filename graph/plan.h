// Places of values in memory while a graph runs.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "graph/places.h"

namespace tilewright::graph {

// One block of memory, in which values that are not needed at the same time share places.
struct Plan {
  // Each value's place in that of its root, which has one of its own.
  std::vector<Place> places;
  // Offsets of roots that are calculated or given: from the start of the block, aligned to kValueAlignment.
  // -1 for constants, for states and for values that are no roots.
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
  // Of loops, by their nodes: the places in their bodies, and where the block of these is. Inputs that are whole
  // values have none: they lie outside.
  std::map<size_t, std::pair<int64_t, Plan>> bodies;
  // The most that is needed at one time: no plan takes less.
  int64_t least_bytes = 0;
};

// By the nodes in their order, at the largest sizes. Inputs stay until their last use, outputs until the end.
Plan plan_memory(const Graph& graph);

}  // namespace tilewright::graph
