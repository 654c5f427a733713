// Fusion: nodes that compute functions of elements become part of the node that makes the elements.
#pragma once

#include "graph/graph.h"

namespace tilewright::graph {

// Makes one node of two wherever the second computes each element of its output from the same element of
// the first one's output, which nothing else reads: a chain of functions becomes one, and a product or a
// convolution takes the functions, factors and sums that follow. The elements may also be read in another
// order, each of them once, as by a transposition; where the first node reduces, along the same innermost
// axis. A fused node is an `expr` of both, whose stages keep their types: floats, codes of a byte and their
// sums. Any other operator takes a conversion of its output. The meaning of the graph stays the same but
// for the order of roundings. Returns the number of nodes that went away.
int fuse(Graph* graph);

}  // namespace tilewright::graph
