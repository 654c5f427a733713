// Nodes that give as many elements as values of a run say: plain nodes (graph/plain/plain.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"

namespace tilewright::onnx {
namespace {

constexpr double kFar = int64_t{1} << 52;  // beyond all sizes

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

// The only number of an input.
std::optional<double> only_number(const Mapping& m, const Node& node, size_t input) {
  const Value& v = m.input(node, input);
  if (v.contents && v.contents->size() == 1 && (*v.contents)[0].fixed()) {
    return static_cast<double>((*v.contents)[0].number());
  }
  return v.scalar();
}

// Numbers from one to another: as many as sizes say, or as a run calculates.
Mapped express_range(const Mapping& m, const Node& node) {
  const Extent count = m.shape(node.outputs.at(0)).at(0);
  const CalculatedSize* calculated = m.graph.values().calculated(count);
  if (calculated != nullptr && !calculated->has_places() && calculated->node == &node) {
    return {plain_draft(m, node, "Range", {"start", "limit", "delta"})};
  }
  const auto from = only_number(m, node, 0), step = only_number(m, node, 2);
  if (!from || !step) throw NotMapped("its start or its step is not known");
  IndexExpr e(m, node);
  return {e.finish(
      fmt::format("{} = {} * {} + {}", e.left(), e.indices()[0], literal(*step), literal(*from)))};
}

Mapped suppress(const Mapping& m, const Node& node) {
  std::vector<std::string> options;
  if (node.integer("center_point_box", 0) != 0) options.emplace_back("centers=1");
  return {plain_draft(m, node, with_options("NonMaxSuppression", options),
                      {"boxes", "scores", "most", "iou", "least"})};
}

// A value of one i64 that has the element, and what makes it.
std::string element_value(const Mapping& m, const CalculatedSize& size, const Element& e,
                          const std::string& name, Mapped* drafts) {
  std::string number = size.places() + "/" + name;
  if (e.known) {
    drafts->back().layer.made.push_back(
        {number,
         ElemType::i64,
         {1},
         {std::clamp(static_cast<double>(e.known->number()), -kFar, kFar)}});
    return number;
  }
  const Shape& shape = m.shape(e.value);
  if (m.elem(e.value) == ElemType::i64 && (shape.empty() || shape[0] == Extent(1))) return e.value;
  IndexExpr one(m, *size.node, number, {1}, ElemType::i64);
  Draft made =
      one.finish(fmt::format("{} = {}", one.left(), one.at(e.value, {std::to_string(e.place)})));
  drafts->insert(drafts->begin(), std::move(made));
  return number;
}

}  // namespace

Mapped size_drafts(const Mapping& m, const CalculatedSize& size) {
  if (!size.has_places()) return {};
  m.graph.values().declare_made(size.places(), DataType::Int64, {Extent::named(size.name)});
  Mapped drafts = {m.draft("expr", *size.node)};
  drafts[0].layer.output = size.places();
  std::string operands[3];
  operands[1] = element_value(m, size, size.limit, "limit", &drafts);
  if (!size.sliced.empty()) {
    operands[0] = element_value(m, size, size.start, "start", &drafts);
    operands[2] = element_value(m, size, {Extent(size.step), "", 0}, "delta", &drafts);
  }
  Layer& layer = drafts.back().layer;
  layer.plain = !size.sliced.empty() ? fmt::format("Slice:axis={}", size.axis)
                : size.is_size       ? "Range:size=1"
                                     : "Range";
  const char* const names[] = {"start", "limit", "delta"};
  for (size_t i = 0; i < 3; ++i) {
    if (!operands[i].empty()) layer.operands[names[i]] = operands[i];
  }
  if (!size.sliced.empty()) layer.operands["X"] = size.sliced;
  return drafts;
}

const MapFns& whole_plain_mappings() {
  static const MapFns kMappings = {{"NonZero", find_nonzero},
                                   {"Compress", compress},
                                   {"Unique", find_unique},
                                   {"NonMaxSuppression", suppress},
                                   {"Range", express_range}};
  return kMappings;
}

}  // namespace tilewright::onnx
