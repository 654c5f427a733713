// Feature maps with their channels last.
#pragma once

#include "graph/graph.h"
#include "graph/layouts/choice.h"

namespace tilewright::graph {

// Stores values of four axes [n, c, h, w] as [n, h, w, c] where that saves time. Before -> after:
//   "y": f32[1, 8, 9, 9] = "expr:… Y[n, c, h, w] += X[n, k, h, w] * W[c, k, 0, 0]" (X="x", W="w")
//   "y": f32[1, 9, 9, 8] = "expr:… Y[n, h, w, c] += X[n, h, w, k] * W[k, c]" (X="x", W="w/last")
// Nodes that `text_of` has take and give either layout, means over h and w take either. A join or a slice along
// the channels is a copy in the second; in the first, a join copies the parts that are in the second. All else
// reads and makes the first: it gets a copy.
// Inputs and outputs keep their layout. Returns the number of values that changed theirs.
int use_channels_last(Graph* graph, const GraphSeconds& seconds = {});

}  // namespace tilewright::graph
