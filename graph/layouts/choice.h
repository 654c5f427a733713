// The layouts of feature maps by what they cost.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "graph/layouts/roles.h"

namespace tilewright::graph {

// Seconds that a graph takes to run; nothing where they are not known.
using GraphSeconds = std::function<std::optional<double>(Graph)>;

// Whether each value has its channels last, so that the sum of costs is least: a minimum cut. A sum, a join, a slice
// or a copy costs what `seconds` says of a graph of this node alone, in each layout of its output and of what it
// reads. Estimates stand for what it does not know: sums save a share of their time with the channels last, and
// copies and reads across layouts cost time by their bytes. It is asked for all, first for nodes in one layout alone.
std::vector<bool> choose_layouts(const Graph& graph, const LayoutRoles& roles,
                                 const GraphSeconds& seconds);

}  // namespace tilewright::graph
