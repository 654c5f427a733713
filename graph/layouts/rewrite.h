// A graph with the channels last in chosen values.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/layouts/roles.h"

namespace tilewright::graph {

// Stores the chosen feature maps, by value, with their channels last: nodes are said anew, copies come where one
// needs the other layout, and outputs of the graph are copies with the channels first. False where a node cannot
// be said so; the graph is of no use then.
bool store_channels_last(Graph* graph, const LayoutRoles& roles, const std::vector<bool>& last);

}  // namespace tilewright::graph
