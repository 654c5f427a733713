// Softmax, normalizations, reductions, and rows of tables.
#include <fmt/format.h>

#include <algorithm>

#include "models/onnx/mapping.h"
#include "models/onnx/patterns.h"
#include "models/onnx/step.h"
#include "models/onnx/whole/index_expr.h"

namespace tilewright::onnx {
namespace {

size_t axis_from(const Node& node, int64_t fallback, size_t rank) {
  const int64_t given = node.integer("axis", fallback);
  auto axis = axis_of(given, rank);
  if (!axis) throw NotMapped(fmt::format("axis {} is outside of {} axes", given, rank));
  return *axis;
}

void add_rows(const Mapping& m, Draft* d, const Shape& x, size_t axis) {
  d->spec.size("m", m.product(x, 0, axis)).size("n", m.product(x, axis));
}

Mapped map_softmax(const Mapping& m, const Node& node) {
  const Shape& x = m.shape(node, 0);
  // Old versions take all that follows the axis as one row.
  const bool old = m.graph.opset(node) < 13;
  const size_t axis = axis_from(node, old ? 1 : -1, x.size());
  if (!old && m.extents().product(x, axis + 1) != Extent(1)) {
    throw NotMapped(fmt::format("its rows lie across axis {}, not along the last one", axis));
  }
  Draft d = m.draft("softmax", node);
  add_rows(m, &d, x, axis);
  m.add_type(&d, m.elem(node.inputs[0]));
  d.layer.operands = {{"X", node.inputs[0]}};
  return {d};
}

// A normalization of rows with what multiplies and shifts them.
Draft norm(const Mapping& m, const Node& node, const std::string& op, const std::string& x,
           size_t axis, double eps, const std::string& gamma, const std::string& beta) {
  Draft d = m.draft(op, node);
  add_rows(m, &d, m.shape(x), axis);
  d.spec.real("eps", eps);
  if (!gamma.empty()) d.spec.flag("affine");
  m.add_type(&d, m.elem(x));
  d.layer.operands = {{"X", x}};
  if (!gamma.empty()) d.layer.operands["gamma"] = gamma;
  if (!beta.empty()) d.layer.operands["beta"] = beta;
  if (op == "layer_norm" && !gamma.empty() && beta.empty()) {
    if (m.options.whole) {
      const std::string zeros = node.outputs.at(0) + "/beta";
      const auto count = m.fixed_size(m.shape(gamma).back(), "the columns");
      d.layer.made.push_back(
          {zeros, m.elem(gamma), {count}, std::vector<double>(static_cast<size_t>(count), 0)});
      d.layer.operands["beta"] = zeros;
    } else {
      d.layer.note = "beta is 0";
    }
  }
  return d;
}

std::string input_name(const Node& node, size_t i) {
  return node.has_input(i) ? node.inputs[i] : std::string();
}

Mapped map_norm(const Mapping& m, const Node& node) {
  const bool rms = node.op == "RMSNormalization" || node.op == "SimplifiedLayerNormalization";
  const std::string x = input_name(node, 0);
  const size_t axis = axis_from(node, -1, m.shape(node, 0).size());
  return {norm(m, node, rms ? "rms_norm" : "layer_norm", x, axis, node.real("epsilon", 1e-5),
               input_name(node, 1), rms ? "" : input_name(node, 2))};
}

// The sum of the first two inputs, which may be broadcast, and of a bias where there is one.
Draft whole_sum(const Mapping& m, const Node& node, size_t bias, const std::string& output) {
  IndexExpr e(m, node, output, sizes_of_value(m, node.inputs.at(0)), m.elem(node.inputs[0]));
  std::string text = e.element(node.inputs[0]) + " + " + e.element(node.inputs.at(1));
  if (node.has_input(bias)) text += " + " + e.element(node.inputs[bias]);
  return e.finish(fmt::format("{} = {}", e.left(), text));
}

// The sum of an input, what bypassed it and a bias, normalized.
Mapped map_skip_norm(const Mapping& m, const Node& node) {
  const bool rms = node.op == "SkipSimplifiedLayerNormalization";
  const Shape& x = m.shape(node, 0);
  const size_t bias = rms ? 3 : 4;
  std::string sum = node.outputs.size() > 3 ? node.outputs[3] : "";
  if (sum.empty() && m.options.whole) sum = node.outputs.at(0) + "/sum";
  const auto normalized = [&](const std::string& of) {
    Draft d = norm(m, node, rms ? "rms_norm" : "layer_norm", node.inputs[0], x.size() - 1,
                   node.real("epsilon", 1e-5), input_name(node, 2), rms ? "" : input_name(node, 3));
    d.layer.operands["X"] = of;
    return d;
  };
  if (m.options.whole) return {whole_sum(m, node, bias, sum), normalized(sum)};
  if (m.shape(node, 1) != x)
    throw NotMapped("the added tensor does not have the shape of the input");
  Draft add = m.draft("elementwise", node);
  add.spec.sizes("shape", {m.product(x, 0, x.size() - 1), m.size(x.back())}).text("fn", "add");
  m.add_type(&add, m.elem(node.inputs[0]));
  add.layer.operands = {{"X", node.inputs[0]}, {"Z", node.inputs[1]}};
  add.layer.output = sum;
  if (node.has_input(bias)) add.layer.note = "the bias is added besides";
  return {add, normalized(sum)};
}

// The axes that go away; nothing: all of them.
std::optional<std::vector<int64_t>> reduced_axes(const Mapping& m, const Node& node) {
  if (auto own = node.integers("axes")) return own;
  if (!node.has_input(1)) return std::nullopt;
  const std::optional<Shape>& contents = m.input(node, 1).contents;
  if (!contents) throw NotMapped("its axes are calculated");
  std::vector<int64_t> axes;
  for (const Extent& e : *contents) {
    if (!e.fixed()) throw NotMapped("its axes are calculated");
    axes.push_back(e.number());
  }
  return axes;
}

Mapped reduction(const Mapping& m, const Node& node, const Shape& x, std::vector<int64_t> axes,
                 const std::string& kind) {
  std::vector<DimSize> shape;
  for (const Extent& e : x) shape.push_back(m.size(e));
  if (shape.empty() || axes.empty()) throw NotMapped("there is nothing to reduce");
  Draft d = m.draft("reduce", node);
  d.spec.sizes("shape", shape).numbers("axes", axes).text("kind", kind);
  const ElemType type = m.elem(node.inputs[0]);
  m.add_type(&d, type);
  if (!is_float(type)) d.spec.text("out", to_string(type));
  d.layer.operands = {{"X", node.inputs[0]}};
  return {d};
}

// The root of the sum of squares over the last axes.
Mapped map_l2(const Mapping& m, const Node& node, const Shape& x,
              const std::vector<int64_t>& axes) {
  const size_t first = x.size() - axes.size();
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != static_cast<int64_t>(first + i)) {
      throw NotMapped("its axes are not the last ones");
    }
  }
  Draft d = m.draft("norm", node);
  d.spec.size("b", m.product(x, 0, first)).size("m", m.product(x, first, x.size() - 1));
  d.spec.size("n", m.size(x.back()));
  m.add_type(&d, m.elem(node.inputs[0]));
  d.layer.operands = {{"X", node.inputs[0]}};
  return {d};
}

Mapped map_reduce(const Mapping& m, const Node& node) {
  static const std::map<std::string, std::string> kKinds = {
      {"ReduceSum", "sum"}, {"ReduceMax", "max"}, {"ReduceMin", "min"}, {"ReduceMean", "mean"}};
  const Shape& x = m.shape(node, 0);
  std::optional<std::vector<int64_t>> given = reduced_axes(m, node);
  if ((!given || given->empty()) && node.integer("noop_with_empty_axes", 0) != 0) {
    throw NotMapped("it reduces no axis");
  }
  std::vector<int64_t> axes;
  for (size_t d = 0; d < x.size(); ++d) axes.push_back(static_cast<int64_t>(d));
  if (given && !given->empty()) {
    axes.clear();
    for (int64_t a : *given) {
      auto axis = axis_of(a, x.size());
      if (!axis) throw NotMapped(fmt::format("axis {} is outside of {} axes", a, x.size()));
      axes.push_back(static_cast<int64_t>(*axis));
    }
    std::sort(axes.begin(), axes.end());
  }
  if (node.op == "ReduceL2") return map_l2(m, node, x, axes);
  return reduction(m, node, x, axes, kKinds.at(node.op));
}

Mapped map_global_pool(const Mapping& m, const Node& node) {
  const Shape& x = m.shape(node, 0);
  std::vector<int64_t> axes;
  for (size_t d = 2; d < x.size(); ++d) axes.push_back(static_cast<int64_t>(d));
  return reduction(m, node, x, axes, node.op == "GlobalMaxPool" ? "max" : "mean");
}

Mapped map_gather(const Mapping& m, const Node& node) {
  const Shape& table = m.shape(node, 0);
  if (axis_from(node, 0, table.size()) != 0) {
    throw NotMapped("it takes elements along another axis than the first");
  }
  // Negative ones count from the end there, and not here.
  const Tensor* indices = m.input(node, 1).tensor;
  for (int64_t i = 0; indices != nullptr && indices->readable() && i < indices->count; ++i) {
    if (indices->whole_at(i) < 0) throw NotMapped("it has negative indices");
  }
  Draft d = m.draft("gather", node);
  d.spec.size("rows", m.size(table[0])).size("cols", m.product(table, 1));
  d.spec.size("index", m.product(m.shape(node, 1)));
  m.add_type(&d, m.elem(node.inputs[0]));
  d.layer.operands = {{"X", node.inputs[0]}, {"I", node.inputs[1]}};
  return {d};
}

}  // namespace

std::optional<Draft> written_out_norm(const Mapping& m, const Node& node) {
  auto match = match_norm(m.graph, node);
  if (!match) return std::nullopt;
  Draft d = norm(m, node, match->op, match->input, m.shape(match->input).size() - 1, match->eps,
                 match->gamma, match->beta);
  d.layer.nodes = match->nodes;
  d.layer.output = match->output;
  return d;
}

const MapFns& row_mappings() {
  static const MapFns kMappings = {
      {"Softmax", map_softmax},
      {"LayerNormalization", map_norm},
      {"RMSNormalization", map_norm},
      {"SimplifiedLayerNormalization", map_norm},
      {"com.microsoft.SkipLayerNormalization", map_skip_norm},
      {"com.microsoft.SkipSimplifiedLayerNormalization", map_skip_norm},
      {"ReduceSum", map_reduce},
      {"ReduceMax", map_reduce},
      {"ReduceMin", map_reduce},
      {"ReduceMean", map_reduce},
      {"ReduceL2", map_reduce},
      {"GlobalAveragePool", map_global_pool},
      {"GlobalMaxPool", map_global_pool},
      {"Gather", map_gather}};
  return kMappings;
}

}  // namespace tilewright::onnx
