#include "graph/rows.h"

#include <fmt/format.h>

#include <cstring>

namespace tilewright::graph {

void Rows::copy(const char* rows, int64_t first, char* state) const {
  const int64_t bytes = count * row_bytes;
  for (int64_t o = 0; o < outer; ++o) {
    std::memcpy(state + (o * state_count + first) * row_bytes, rows + o * bytes,
                static_cast<size_t>(bytes));
  }
}

Rows rows_of(const Graph& graph, const Node& write) {
  const Value &state = graph.values[write.operands.at("X")],
              &rows = graph.values[write.operands.at("R")];
  const Shape &all = state.shape, &some = rows.shape;
  bool fits = rows.elem == state.elem && some.size() == all.size() && !all.empty();
  size_t axis = 0;
  while (fits && axis + 1 < all.size() && some[axis] == all[axis]) ++axis;
  if (fits && some == all) axis = 0;
  Rows found;
  int64_t elements = 1;
  for (size_t d = 0; fits && d < all.size(); ++d) {
    fits = d == axis ? some[d] <= all[d] : some[d] == all[d];
    if (d != axis) (d < axis ? found.outer : elements) *= all[d];
  }
  if (!fits || elements * bits_of(state.elem) % 8 != 0) {
    throw GraphError(fmt::format("'{}': '{}' of {} is no rows of '{}' of {}", write.label,
                                 rows.name, type_text(rows), state.name, type_text(state)));
  }
  found.row_bytes = elements * bits_of(state.elem) / 8;
  found.count = some[axis];
  found.state_count = all[axis];
  return found;
}

}  // namespace tilewright::graph
