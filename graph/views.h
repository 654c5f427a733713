// Nodes that only copy become views: their elements stay where they are, or are made where they are joined.
#pragma once

#include "graph/graph.h"

namespace tilewright::graph {

// Makes views of slices of neighbouring elements, of copies that keep the order, and of joins of whole
// values one after another. Before -> after:
//   "j": f32[1, 3, 16] = "expr:… Y[i, j, k] = select(j < 1, A[i, j, k], B[i, j - 1, k])" (A="a", B="b")
//   "j": f32[1, 3, 16] = view "a", "b"
// Nodes whose views places_of would refuse stay as they are. The graph keeps its meaning, but that copied
// elements are not rounded. Returns the number of nodes that became views.
int use_views(Graph* graph);

}  // namespace tilewright::graph
