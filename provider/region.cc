#include "provider/region.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace tilewright::provider {
namespace {

// Operators whose outputs have sizes that depend on values, or differ from run to run.
constexpr std::array kUnpredictable = {
    std::string_view("NonZero"),          std::string_view("Unique"),
    std::string_view("Compress"),         std::string_view("NonMaxSuppression"),
    std::string_view("RandomNormal"),     std::string_view("RandomUniform"),
    std::string_view("RandomNormalLike"), std::string_view("RandomUniformLike"),
    std::string_view("Multinomial"),      std::string_view("Bernoulli"),
    std::string_view(kContextOp)};

// The name that the importer gives the node.
std::string label_of(const NodeView& node) {
  if (!node.name.empty()) return node.name;
  const auto first = std::ranges::find_if(node.outputs, [](const auto& o) { return !o.empty(); });
  return first == node.outputs.end() ? node.op : *first;
}

bool is_number(int32_t elem) { return elem != 0 && elem != ort::kText; }

bool is_claimable(const GraphView& graph, const NodeView& node,
                  const std::set<std::string>& excluded) {
  if (node.holds_graphs || node.outputs.empty()) return false;
  const auto named = [&](const std::string& name) { return excluded.contains(name); };
  if (named(node.op) || named(node.name) || std::ranges::any_of(node.outputs, named)) return false;
  if (std::ranges::find(kUnpredictable, node.op) != kUnpredictable.end()) return false;
  const auto numbers = [&](const std::string& value) {
    return value.empty() || is_number(graph.type(value).elem);
  };
  return std::ranges::all_of(node.inputs, numbers) && std::ranges::all_of(node.outputs, numbers);
}

void add_once(std::vector<std::string>& list, const std::string& value) {
  if (std::ranges::find(list, value) == list.end()) list.push_back(value);
}

// The values that nodes besides `own` read.
std::set<std::string> values_read(const GraphView& graph, const std::set<const NodeView*>& own) {
  std::set<std::string> read;
  for (const NodeView& node : graph.nodes()) {
    if (own.contains(&node)) continue;
    read.insert(node.inputs.begin(), node.inputs.end());
    read.insert(node.implicit_inputs.begin(), node.implicit_inputs.end());
  }
  return read;
}

// Fills in what crosses the region's border; `wanted` are values that others read.
void find_border(const GraphView& graph, const std::set<std::string>& wanted, Region& region) {
  std::set<std::string> made;
  for (const NodeView* node : region.nodes) made.insert(node->outputs.begin(), node->outputs.end());
  std::set<std::string> seen;
  for (const NodeView* node : region.nodes) {
    for (const std::string& input : node->inputs) {
      if (input.empty() || made.contains(input) || !seen.insert(input).second) continue;
      (graph.is_constant(input) ? region.constants : region.inputs).push_back(input);
    }
    for (const std::string& output : node->outputs) {
      if (output.empty() || !(wanted.contains(output) || graph.is_output(output))) continue;
      add_once(region.outputs, output);
    }
  }
}

}  // namespace

std::vector<Region> regions_of(const GraphView& graph, const std::set<std::string>& excluded,
                               const std::set<std::string>& missing) {
  // A value's depth: how many other nodes stand, alternating with claimed ones, on the longest path to it.
  // Claimed nodes of one depth are a region, since a path that leaves them comes back deeper.
  std::map<std::string, std::pair<size_t, bool>>
      made;  // by value: depth, and whether a claimed node made it
  std::map<size_t, Region> by_depth;
  for (const NodeView& node : graph.nodes()) {
    const bool claimed = is_claimable(graph, node, excluded) && !missing.contains(label_of(node));
    size_t depth = 0;
    const auto read = [&](const std::string& value) {
      const auto maker = made.find(value);
      if (maker == made.end()) return;
      const bool leaves = maker->second.second && !claimed;
      depth = std::max(depth, maker->second.first + (leaves ? 1 : 0));
    };
    std::ranges::for_each(node.inputs, read);
    std::ranges::for_each(node.implicit_inputs, read);
    for (const std::string& output : node.outputs) {
      if (!output.empty()) made[output] = {depth, claimed};
    }
    if (claimed) by_depth[depth].nodes.push_back(&node);
  }
  std::vector<Region> regions;
  for (auto& [depth, region] : by_depth) {
    find_border(graph, values_read(graph, {region.nodes.begin(), region.nodes.end()}), region);
    if (!region.outputs.empty()) regions.push_back(std::move(region));
  }
  return regions;
}

std::optional<Region> whole_of(const GraphView& graph) {
  Region whole;
  for (const NodeView& node : graph.nodes()) {
    if (node.holds_graphs) return std::nullopt;
    whole.nodes.push_back(&node);
  }
  find_border(graph, {}, whole);
  return whole;
}

std::vector<Region> nodes_of(const GraphView& graph, const Region& region) {
  std::vector<Region> alone;
  const std::set<std::string> wanted =
      values_read(graph, {});  // a node does not read what it gives
  for (const NodeView* node : region.nodes) {
    Region one;
    one.nodes = {node};
    find_border(graph, wanted, one);
    if (!one.outputs.empty()) alone.push_back(std::move(one));
  }
  return alone;
}

}  // namespace tilewright::provider
