// Reads of an `expr`, in the form in which kernels do them best.
#pragma once

#include "graph/graph.h"

namespace tilewright::graph {

// Takes reduce axes of one element off sums, and last axes of one element off what an `expr` makes and reads, so
// that the innermost index of a kernel runs along memory. A sum keeps one reduce axis, a tensor one axis. Values
// keep their shapes, since a node counts the elements alone. Constants that a sum multiplies by another operand are
// weights, which kernels pack. An index over channels whose group a sum reads becomes two. Returns how many nodes
// changed.
int simplify_reads(Graph* graph);

}  // namespace tilewright::graph
