#include "graph/layouts/roles.h"

#include <algorithm>

#include "ir/ops/spec.h"

namespace tilewright::graph {
namespace {

using Kind = LayoutRole::Kind;

bool is_map(const Value& v) {
  return v.shape.size() == 4 && !v.constant && v.shape[1] > 1 && v.shape[2] * v.shape[3] > 1;
}

class RoleFinder {
 public:
  RoleFinder(const Graph& graph, const std::vector<bool>& maps) : graph_(graph), maps_(maps) {}

  LayoutRole role_of(const Node& node) const {
    if (node.is_view()) return {slices_channels(node) ? Kind::Channels : Kind::Fixed};
    if (!node.is_workload()) return {Kind::Fixed};
    if (auto text = typed_text_of(node)) {
      bool all = true;
      for (const TextInput& i : text->inputs) all &= !maps_[i.value] || is_map_of(i);
      if (maps_[node.output]) {
        all &= sizes_of(text->stages.back().axes()) == graph_.values[node.output].shape;
      }
      if (all) return {Kind::Text, std::move(text)};
    }
    const Spec spec = parse_spec(node.spec);
    const bool mean = spec.op == "reduce" && maps_[node.operands.at("X")] &&
                      spec.get<std::vector<DimSize>>("shape").size() == 4 &&
                      spec.get<std::vector<int64_t>>("axes") == std::vector<int64_t>{2, 3};
    return {mean ? Kind::Mean : Kind::Fixed};
  }

 private:
  // Whether the node reads the value in the shape that it has, or its rows and columns as one axis.
  bool is_map_of(const TextInput& input) const {
    if (!maps_[input.value]) return false;
    const Shape& own = graph_.values[input.value].shape;
    return input.shape == own || input.shape == Shape{own[0], own[1], own[2] * own[3]};
  }

  // Whether a view has all rows and columns of whole channels of its parts, which have one batch.
  bool slices_channels(const Node& node) const {
    const Shape& made = graph_.values[node.output].shape;
    if (!maps_[node.output] || made[0] != 1) return false;
    return std::ranges::all_of(node.parts(), [&](size_t part) {
      const Shape& from = graph_.values[part].shape;
      return maps_[part] && from[0] == 1 && from[2] == made[2] && from[3] == made[3] &&
             node.first % (made[2] * made[3]) == 0;
    });
  }

  const Graph& graph_;
  const std::vector<bool>& maps_;
};

}  // namespace

LayoutRoles layout_roles(const Graph& graph) {
  LayoutRoles roles;
  for (const Value& v : graph.values) roles.maps.push_back(is_map(v));
  const RoleFinder finder(graph, roles.maps);
  for (const Node& node : graph.nodes) roles.nodes.push_back(finder.role_of(node));
  return roles;
}

}  // namespace tilewright::graph
