#include "graph/join_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "graph/moves.h"
#include "ir/ops/spec.h"

namespace tilewright::graph {
namespace {

// The nodes that may be one, by what they have in common.
using Groups = std::map<std::string, std::vector<size_t>>;

int64_t columns_of(const Spec& spec) { return spec.get<DimSize>("n").max; }

// Whether the columns of a constant operand stand in whole bytes of its rows.
bool has_columns(const Value& v, const std::string& operand, const Spec& spec) {
  if (!v.constant || v.data == nullptr || operand == "D") return false;
  if (!spec.has("w.dtype")) return v.elem == ElemType::f32;
  const int64_t columns = columns_of(spec);
  return v.count() % columns == 0 && columns * bits_of(v.elem) % 8 == 0 &&
         !spec.get<bool>("trans_b");
}

bool is_joinable(const Graph& graph, const Node& node, const Spec& spec) {
  const auto steps = spec.get<std::vector<std::string>>("epilogue");
  if (std::ranges::find(steps, "add") != steps.end()) return false;
  if (spec.get<DimSize>("batch") != DimSize{1, 1}) return false;
  const std::vector<size_t>& outputs = graph.outputs;
  if (std::ranges::find(outputs, node.output) != outputs.end()) return false;
  return std::ranges::all_of(node.operands, [&](const auto& operand) {
    return operand.first == "A" || has_columns(graph.values[operand.second], operand.first, spec);
  });
}

Groups groups_of(const Graph& graph) {
  Groups groups;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!node.is_workload()) continue;
    Spec spec = parse_spec(node.spec);
    if (spec.op != "matmul" || !is_joinable(graph, node, spec)) continue;
    spec.params["n"] = DimSize{1, 1};
    groups[fmt::format("{} {}", node.operands.at("A"), canonical_text(spec))].push_back(n);
  }
  std::erase_if(groups, [](const auto& group) { return group.second.size() < 2; });
  return groups;
}

std::string unused_name(const Graph& graph, std::string name) {
  while (std::ranges::find(graph.values, name, &Value::name) != graph.values.end()) name += "'";
  return name;
}

// The constants side by side in rows, which have so many columns together.
size_t join_constants(Graph* graph, const std::string& name, const std::vector<size_t>& parts,
                      int64_t rows, const Shape& shape) {
  Value joined{unused_name(*graph, name), graph->values[parts[0]].elem, shape, true};
  std::string data;
  for (int64_t row = 0; row < rows; ++row) {
    for (size_t part : parts) {
      const std::string& own = *graph->values[part].data;
      const size_t length = own.size() / static_cast<size_t>(rows);
      data.append(own, static_cast<size_t>(row) * length, length);
    }
  }
  joined.data = std::make_shared<const std::string>(std::move(data));
  return graph->add(std::move(joined));
}

// One product in the place of the first of these nodes, and copies of its columns.
Graph joined(Graph graph, const std::vector<size_t>& group) {
  const Node first = graph.nodes[group[0]];
  Spec spec = parse_spec(first.spec);
  const int64_t rows = spec.get<DimSize>("m").max;
  const bool turned = spec.get<bool>("trans_b");
  int64_t columns = 0;
  std::map<std::string, std::vector<size_t>> constants;  // by their operand
  std::string name;
  for (size_t n : group) {
    const Node& node = graph.nodes[n];
    columns += columns_of(parse_spec(node.spec));
    for (const auto& [operand, value] : node.operands) {
      if (operand != "A") constants[operand].push_back(value);
    }
    name += (name.empty() ? "" : "+") + graph.values[node.output].name;
  }
  spec.params["n"] = DimSize{columns, columns};
  Node product;
  product.label = first.label;
  product.spec = spec_to_inline(spec);
  product.output = graph.add({unused_name(graph, name), ElemType::f32, {rows, columns}});
  product.operands["A"] = first.operands.at("A");
  for (const auto& [operand, parts] : constants) {
    const int64_t lines = graph.values[parts[0]].count() / columns_of(parse_spec(first.spec));
    const bool is_turned = turned && operand == "B";
    const Shape shape = operand == "bias" ? Shape{columns}
                        : is_turned       ? Shape{columns, lines}
                                          : Shape{lines, columns};
    product.operands[operand] = join_constants(&graph, fmt::format("{}/{}", name, operand), parts,
                                               is_turned ? 1 : lines, shape);
  }
  std::vector<Node> nodes;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (n == group[0]) {
      nodes.push_back(product);
      int64_t start = 0;
      for (size_t part : group) {
        const int64_t own = columns_of(parse_spec(graph.nodes[part].spec));
        Node copy = graph.nodes[part];
        copy.spec = spec_to_inline(parse_spec(
            fmt::format("expr:expr=\"Y[i, j] = X[i, j + {}]\",dims.i={},dims.j={},shapes.X=[{},{}]",
                        start, rows, own, rows, columns)));
        copy.operands = {{"X", product.output}};
        nodes.push_back(std::move(copy));
        start += own;
      }
    } else if (std::ranges::find(group, n) == group.end()) {
      nodes.push_back(graph.nodes[n]);
    }
  }
  graph.nodes = std::move(nodes);
  return graph;
}

}  // namespace

int join_products(Graph* graph) {
  int count = 0;
  size_t tried = 0;
  while (true) {
    const Groups groups = groups_of(*graph);
    if (tried >= groups.size()) return count;
    const std::vector<size_t>& group =
        std::next(groups.begin(), static_cast<int64_t>(tried))->second;
    std::vector<std::string> outputs;
    for (size_t n : group) outputs.push_back(graph->values[graph->nodes[n].output].name);
    Graph other = joined(*graph, group);
    fold_moves(&other);
    const bool copied = std::ranges::any_of(other.nodes, [&](const Node& node) {
      return std::ranges::find(outputs, other.values[node.output].name) != outputs.end();
    });
    if (copied) {
      ++tried;
      continue;
    }
    *graph = std::move(other);
    count += static_cast<int>(outputs.size()) - 1;
  }
}

}  // namespace tilewright::graph
