// The passes that make a model's program faster, in their order.
#pragma once

#include "graph/graph.h"

namespace tilewright::graph {

// Views, fusion of functions, attention, and moves folded into their readers, until nothing changes; then
// joined products, layouts, inverses of numbers and shared workloads. The meaning of the graph stays the same
// but for the order of roundings. Graphs with states stay as they are, since passes know no order of reads
// and writes.
void optimize(Graph* graph);

}  // namespace tilewright::graph
