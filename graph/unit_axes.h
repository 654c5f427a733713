// Axes of one element.
#pragma once

#include "graph/graph.h"

namespace tilewright::graph {

// Takes reduce axes of one element off sums, and last axes of one element off what an `expr` makes and reads, so
// that the innermost index of a kernel runs along memory. A sum keeps one reduce axis, a tensor one axis. Values
// keep their shapes, since a node counts the elements alone. Returns how many nodes changed.
int drop_unit_axes(Graph* graph);

}  // namespace tilewright::graph
