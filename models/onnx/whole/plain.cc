// Nodes that give as many elements as values of a run say: plain nodes (graph/plain/plain.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"

namespace tilewright::onnx {
namespace {

// The operands are the node's inputs, by their names in a plain node; "" for those that are left out.
Draft plain_draft(const Mapping& m, const Node& node, std::string plain,
                  const std::vector<std::string>& operands) {
  if (!node.bodies.empty()) {
    throw NotMapped(
        "it gives as many elements as values of the run say, within a loop; expected "
        "such a node outside of loops");
  }
  Draft d = m.draft("expr", node);
  d.layer.plain = std::move(plain);
  for (size_t i = 0; i < operands.size(); ++i) {
    if (node.has_input(i)) d.layer.operands[operands[i]] = node.inputs[i];
  }
  sizes_of_value(m, d.layer.output);  // throws where they are none
  return d;
}

// Nothing: all elements are one row.
std::optional<size_t> axis_of(const Mapping& m, const Node& node) {
  if (node.find("axis") == nullptr) return std::nullopt;
  return checked_axis(node.integer("axis", 0), m.shape(node, 0).size());
}

// "Unique:axis=1,sorted=0"
std::string with_options(const std::string& op, const std::vector<std::string>& options) {
  return options.empty() ? op : fmt::format("{}:{}", op, fmt::join(options, ","));
}

std::vector<std::string> axis_option(std::optional<size_t> axis) {
  if (!axis) return {};
  return {fmt::format("axis={}", *axis)};
}

Mapped find_nonzero(const Mapping& m, const Node& node) {
  if (m.shape(node, 0).empty()) throw NotMapped("its input is a number; expected an axis or more");
  return {plain_draft(m, node, "NonZero", {"X"})};
}

Mapped compress(const Mapping& m, const Node& node) {
  return {
      plain_draft(m, node, with_options("Compress", axis_option(axis_of(m, node))), {"X", "C"})};
}

Mapped find_unique(const Mapping& m, const Node& node) {
  const std::optional<size_t> axis = axis_of(m, node);
  std::vector<std::string> options = axis_option(axis);
  if (node.integer("sorted", 1) == 0) options.emplace_back("sorted=0");
  Draft d = plain_draft(m, node, with_options("Unique", options), {"X"});
  // Outputs that the node leaves out have names all the same.
  const Extent found = m.shape(d.layer.output).at(axis.value_or(0));
  const Shape& x = m.shape(node, 0);
  const auto rows = axis ? std::optional(x[*axis]) : m.extents().product(x);
  if (!rows) throw NotMapped("the number of elements overflows");
  const Shape shapes[] = {{found}, {*rows}, {found}};
  for (size_t o = 1; o < 4; ++o) {
    const bool given = o < node.outputs.size() && !node.outputs[o].empty();
    d.layer.more.push_back(given ? node.outputs[o] : fmt::format("{}/{}", d.layer.output, o));
    if (!given) m.graph.values().declare_made(d.layer.more.back(), DataType::Int64, shapes[o - 1]);
  }
  return {d};
}

Mapped suppress(const Mapping& m, const Node& node) {
  std::vector<std::string> options;
  if (node.integer("center_point_box", 0) != 0) options.emplace_back("centers=1");
  return {plain_draft(m, node, with_options("NonMaxSuppression", options),
                      {"boxes", "scores", "most", "iou", "least"})};
}

}  // namespace

const MapFns& whole_plain_mappings() {
  static const MapFns kMappings = {{"NonZero", find_nonzero},
                                   {"Compress", compress},
                                   {"Unique", find_unique},
                                   {"NonMaxSuppression", suppress}};
  return kMappings;
}

}  // namespace tilewright::onnx
