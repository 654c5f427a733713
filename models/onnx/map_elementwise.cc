// Functions of each element.
#include <fmt/format.h>

#include <algorithm>

#include "models/onnx/mapping.h"
#include "models/onnx/patterns.h"
#include "models/onnx/whole/index_expr.h"

namespace tilewright::onnx {
namespace {

// [rows, columns]: the same elements in the same order, so that equal work has equal specs.
std::vector<DimSize> flat_shape(const Mapping& m, const Shape& x) {
  if (x.size() < 2) return {m.product(x)};
  return {m.product(x, 0, x.size() - 1), m.size(x.back())};
}

void add_output_type(Draft* d, ElemType in, ElemType out) {
  if (is_float(in) && out != in) d->spec.text("out", to_string(out));
  if (!is_float(in)) d->spec.text("out", to_string(out));
}

Draft function(const Mapping& m, const Node& node, const std::string& x, const std::string& fn) {
  Draft d = m.draft("elementwise", node);
  d.spec.sizes("shape", flat_shape(m, m.shape(x))).text("fn", fn);
  const ElemType type = m.elem(x);
  m.add_type(&d, type);
  add_output_type(&d, type, type);
  d.layer.operands = {{"X", x}};
  return d;
}

Mapped map_function(const Mapping& m, const Node& node) {
  static const std::map<std::string, std::string> kFunctions = {
      {"Relu", "relu"}, {"Gelu", "gelu"}, {"Sigmoid", "sigmoid"}, {"Tanh", "tanh"},
      {"Erf", "erf"},   {"Exp", "exp"},   {"Log", "log"},         {"Sqrt", "sqrt"},
      {"Abs", "abs"},   {"Neg", "neg"},   {"Swish", "silu"},      {"QuickGelu", "silu"}};
  if (node.text("approximate", "none") != "none") {
    throw NotMapped("its gelu is an approximation; that of specs is exact");
  }
  const double alpha = node.real("alpha", node.op == "QuickGelu" ? 1.702 : 1);
  if (alpha != 1) throw NotMapped(fmt::format("its alpha is {}; expected 1", alpha));
  return {function(m, node, node.inputs[0], kFunctions.at(node.op))};
}

// A conversion: the copy of a narrower or wider type.
Mapped map_cast(const Mapping& m, const Node& node) {
  Draft d = m.draft("elementwise", node);
  d.spec.sizes("shape", flat_shape(m, m.shape(node, 0))).text("fn", "copy");
  const ElemType from = m.elem(node.inputs[0]), to = m.elem(node.outputs.at(0));
  m.add_type(&d, from);
  if (is_float(from) != is_float(to)) throw NotMapped("it converts between integers and floats");
  add_output_type(&d, from, to);
  d.layer.operands = {{"X", node.inputs[0]}};
  return {d};
}

// Axes of a combination of two shapes, neighbours of one kind as one.
struct JoinedAxis {
  bool in_x, in_z;
  Extent size;
};

std::vector<JoinedAxis> join_axes(const Mapping& m, const Shape& x, const Shape& z) {
  const size_t rank = std::max(x.size(), z.size());
  std::vector<JoinedAxis> axes;
  for (size_t d = 0; d < rank; ++d) {
    auto at = [&](const Shape& s) {
      return d + s.size() < rank ? Extent(1) : s[d + s.size() - rank];
    };
    const Extent a = at(x), b = at(z);
    if (a == Extent(1) && b == Extent(1)) continue;
    const JoinedAxis axis{a != Extent(1), b != Extent(1), a != Extent(1) ? a : b};
    if (axis.in_x && axis.in_z && a != b) throw NotMapped("sizes differ in name");
    const bool same =
        !axes.empty() && axes.back().in_x == axis.in_x && axes.back().in_z == axis.in_z;
    auto joined = same ? m.extents().times(axes.back().size, axis.size) : std::nullopt;
    if (joined) {
      axes.back().size = *joined;
    } else {
      axes.push_back(axis);
    }
  }
  if (axes.empty()) axes.push_back({true, true, 1});
  return axes;
}

// An expression over the elements of X, and of Z where that is an operand.
Draft expression(const Mapping& m, const Node& node, const std::vector<JoinedAxis>& axes,
                 const std::string& text) {
  Draft d = m.draft("expr", node);
  std::string all, x, z;
  for (size_t i = 0; i < axes.size(); ++i) {
    auto add = [&](std::string* list) {
      *list += fmt::format("{}i{}", list->empty() ? "" : ", ", i);
    };
    add(&all);
    if (axes[i].in_x) add(&x);
    if (axes[i].in_z) add(&z);
  }
  std::string value = text;
  for (const auto& [name, indices] : {std::pair("X", x), std::pair("Z", z)}) {
    const std::string read = fmt::format("{}[{}]", name, indices.empty() ? "0" : indices);
    for (size_t at = 0; (at = value.find(std::string("$") + name, at)) != std::string::npos;) {
      value.replace(at, 2, read);
    }
  }
  d.spec.text("expr", fmt::format("Y[{}] = {}", all, value));
  for (size_t i = 0; i < axes.size(); ++i) {
    d.spec.size(fmt::format("dims.i{}", i), m.size(axes[i].size));
  }
  return d;
}

std::string number(double x) { return x < 0 ? fmt::format("(-{})", -x) : fmt::format("{}", x); }

// A function of one tensor; `$X` stands for its element.
Draft unary_expression(const Mapping& m, const Node& node, const std::string& x,
                       const std::string& text) {
  Draft d = expression(m, node, join_axes(m, m.shape(x), m.shape(x)), text);
  const ElemType type = m.elem(x);
  m.add_type(&d, type);
  add_output_type(&d, type, type);
  d.layer.operands = {{"X", x}};
  return d;
}

std::string combination(const std::string& op, const std::string& x, const std::string& z) {
  if (op == "Add") return x + " + " + z;
  if (op == "Sub") return x + " - " + z;
  if (op == "Mul") return x + " * " + z;
  if (op == "Div") return x + " / " + z;
  return fmt::format("{}({}, {})", op == "Max" ? "max" : "min", x, z);
}

std::string function_name(const std::string& op) {
  std::string name = op;
  for (char& c : name) c = static_cast<char>(c | 0x20);
  return name;
}

Mapped map_binary(const Mapping& m, const Node& node) {
  if (node.inputs.size() != 2) {
    throw NotMapped(fmt::format("it combines {} tensors; expected 2", node.inputs.size()));
  }
  const Shape &x = m.shape(node, 0), &z = m.shape(node, 1);
  for (size_t i = 0; i < 2; ++i) {  // a number of the model
    auto scalar = m.input(node, i).scalar();
    if (!scalar) continue;
    const std::string own = number(*scalar);
    const std::string text =
        i == 0 ? combination(node.op, own, "$X") : combination(node.op, "$X", own);
    return {unary_expression(m, node, node.inputs[1 - i], text)};
  }
  const ElemType type = m.elem(node.inputs[0]);
  Draft d = x == z ? function(m, node, node.inputs[0], function_name(node.op))
                   : expression(m, node, join_axes(m, x, z), combination(node.op, "$X", "$Z"));
  if (x != z) {
    m.add_type(&d, type);
    add_output_type(&d, type, type);
    d.layer.operands["X"] = node.inputs[0];
  }
  d.layer.operands["Z"] = node.inputs[1];
  return {d};
}

Mapped map_pow(const Mapping& m, const Node& node) {
  auto power = m.input(node, 1).scalar();
  if (!power) throw NotMapped("its exponent is no constant number");
  std::string text;
  if (*power == 2) text = "$X * $X";
  if (*power == 3) text = "$X * $X * $X";
  if (*power == 0.5) text = "sqrt($X)";
  if (*power == -0.5) text = "rsqrt($X)";
  if (*power == -1) text = "1 / $X";
  if (text.empty()) {
    throw NotMapped(fmt::format("its exponent is {}; expected 2, 3, 0.5, -0.5 or -1", *power));
  }
  return {unary_expression(m, node, node.inputs[0], text)};
}

// A bound of Clip: an attribute in old models, an input in new ones.
std::string bound(const Mapping& m, const Node& node, const char* attribute, size_t i,
                  const std::string& fn, const std::string& text) {
  std::optional<double> value;
  if (const Attribute* own = node.find(attribute)) value = own->f;
  if (node.has_input(i)) {
    value = m.input(node, i).scalar();
    if (!value) throw NotMapped("a bound is no constant number");
  }
  return value ? fmt::format("{}({}, {})", fn, text, number(*value)) : text;
}

Mapped map_clip(const Mapping& m, const Node& node) {
  const std::string text = bound(m, node, "min", 1, "max", "$X");
  return {unary_expression(m, node, node.inputs.at(0), bound(m, node, "max", 2, "min", text))};
}

Mapped map_written(const Mapping& m, const Node& node) {
  const std::string alpha = number(node.real("alpha", node.op == "LeakyRelu" ? 0.01 : 0.2));
  const std::map<std::string, std::string> texts = {
      {"Reciprocal", "1 / $X"},
      {"LeakyRelu", fmt::format("select($X > 0, $X, $X * {})", alpha)},
      {"HardSigmoid",
       fmt::format("max(min($X * {} + {}, 1), 0)", alpha, number(node.real("beta", 0.5)))},
      {"HardSwish", "$X * max(min($X / 6 + 0.5, 1), 0)"},
      {"FastGelu", "$X * 0.5 * (1 + tanh($X * (0.7978845608 + 0.0356774081 * $X * $X)))"},
      {"Softplus", "log(1 + exp($X))"}};
  if (node.op == "FastGelu" && node.has_input(1)) throw NotMapped("it adds a bias");
  return {unary_expression(m, node, node.inputs.at(0), texts.at(node.op))};
}

}  // namespace

Draft written_out_function(const Mapping& m, const Node& node, const std::string& input,
                           const FunctionMatch& match) {
  if (m.options.whole) {
    IndexExpr e(m, node, match.output, sizes_of_value(m, input), m.elem(input));
    const std::string x = e.element(input);
    Draft whole = e.finish(
        match.fn == "silu"
            ? fmt::format("{} = {} / (1 + exp(-{}))", e.left(), x, x)
            : fmt::format("{} = {} * 0.5 * (1 + erf({} * 0.7071067811865476))", e.left(), x, x));
    whole.layer.nodes = match.nodes;
    return whole;
  }
  Draft d = function(m, node, input, match.fn);
  d.layer.nodes = match.nodes;
  d.layer.output = match.output;
  return d;
}

const MapFns& elementwise_mappings() {
  static const MapFns kMappings = [] {
    MapFns mappings = {{"Cast", map_cast},
                       {"Pow", map_pow},
                       {"Clip", map_clip},
                       {"com.microsoft.FastGelu", map_written},
                       {"com.microsoft.Gelu", map_function},
                       {"com.microsoft.QuickGelu", map_function}};
    for (const char* op :
         {"Relu", "Gelu", "Sigmoid", "Tanh", "Erf", "Exp", "Log", "Sqrt", "Abs", "Neg", "Swish"}) {
      mappings[op] = map_function;
    }
    for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min"}) mappings[op] = map_binary;
    for (const char* op : {"Reciprocal", "LeakyRelu", "HardSigmoid", "HardSwish", "Softplus"}) {
      mappings[op] = map_written;
    }
    return mappings;
  }();
  return kMappings;
}

}  // namespace tilewright::onnx
