// Rows that a write puts into a state.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace tilewright::graph {

// Rows have the shape of their state but along one axis, the first where both differ, or else the
// outermost: there they take the places from the first row on.
struct Rows {
  int64_t outer = 1;      // stretches of rows, a step along the axes in front of that axis each
  int64_t row_bytes = 0;  // a step along that axis
  int64_t count = 0, state_count = 0;

  // The last row at which they may begin.
  int64_t last_first() const { return state_count - count; }
  // Copies all of them to the state. Requires 0 <= first <= last_first().
  void copy(const char* rows, int64_t first, char* state) const;
};

// Throws GraphError that names the node where the rows do not fit the state.
Rows rows_of(const Graph& graph, const Node& write);

}  // namespace tilewright::graph
