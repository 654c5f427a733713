// How nodes take and make feature maps, values of four axes with their channels first or last.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "graph/statements.h"

namespace tilewright::graph {

struct LayoutRole {
  enum class Kind {
    Fixed,    // reads and makes values with the channels first
    Text,     // takes each of its values in any layout
    Mean,     // a `reduce` over h and w
    Channels  // a view that joins values along their channels, or slices one
  };
  Kind kind = Kind::Fixed;
  std::optional<Text> text = {};
};

struct LayoutRoles {
  std::vector<bool> maps;         // by value: whether its two layouts differ
  std::vector<LayoutRole> nodes;  // by node
};
LayoutRoles layout_roles(const Graph& graph);

}  // namespace tilewright::graph
