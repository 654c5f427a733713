// Places of the elements of values: their own, or a part of another value's.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace tilewright::graph {

inline constexpr int64_t kValueAlignment = 64;  // bytes

// A value whose elements lie in the place of `root`, which is itself where it has a place of its own.
struct Place {
  size_t root = 0;
  int64_t bytes = 0;  // from the first of root's bytes
};

// The place of each value. A view lies in what it is a view of, the output of a write in its state. A join
// holds its parts: what makes a part writes there. Throws GraphError that names the node: a join of constants or inputs, of a value that lies
// elsewhere already, or of one value twice; a part that begins at no multiple of kValueAlignment.
std::vector<Place> places_of(const Graph& graph);

}  // namespace tilewright::graph
