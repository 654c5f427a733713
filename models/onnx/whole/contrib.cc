// Expressions of whole models: operators of the domain com.microsoft, in files that ONNX Runtime optimized or quantized.
#include <fmt/format.h>

#include <algorithm>

#include "models/onnx/whole/codes.h"
#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"

namespace tilewright::onnx {
namespace {

std::string fast_gelu(const std::string& x) {
  return fmt::format(
      "{0} * 0.5 * (1 + tanh({0} * (0.7978845608028654 + 0.035677408136300125 * {0} * {0})))", x);
}

// A function of the sum of an element and a bias.
Mapped express_biased_gelu(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  std::string x = e.element(node.inputs.at(0));
  if (node.has_input(1)) x = fmt::format("({} + {})", x, e.element(node.inputs[1]));
  return {e.finish(fmt::format(
      "{} = {}", e.left(),
      node.op == "FastGelu" ? fast_gelu(x)
                            : fmt::format("{0} * 0.5 * (1 + erf({0} * 0.7071067811865476))", x)))};
}

// The sum of rows of three tables, normalized; and the number of tokens of each sequence.
Mapped express_embedding(const Mapping& m, const Node& node) {
  const std::string& name = node.outputs.at(0);
  const bool wanted = node.outputs.size() > 2 && !node.outputs[2].empty();
  const std::string sum = wanted ? node.outputs[2] : name + "/sum";
  const std::string &words = node.inputs.at(2), &gamma = node.inputs.at(5);
  const Sizes sizes = sizes_of_value(m, name);
  IndexExpr e(m, node, sum, sizes, m.elem(words));
  std::string text = e.at(words, {e.at(node.inputs.at(0), {"i0", "i1"}), "i2"});
  std::string place = "i1";
  if (node.has_input(8)) {
    const Sizes places = sizes_of_value(m, node.inputs[8]);
    place = e.at(node.inputs[8], {places.at(0) == 1 ? "0" : "i0", "i1"});
  }
  text += " + " + e.at(node.inputs.at(3), {place, "i2"});
  if (node.has_input(1)) {
    text += " + " + e.at(node.inputs.at(4), {e.at(node.inputs[1], {"i0", "i1"}), "i2"});
  }
  Draft norm = m.draft("layer_norm", node);
  const int64_t rows = sizes.at(0) * sizes.at(1), columns = sizes.at(2);
  norm.spec.size("m", {rows, rows}).size("n", {columns, columns});
  norm.spec.real("eps", node.real("epsilon", 1e-12)).flag("affine");
  m.add_type(&norm, m.elem(words));
  norm.layer.operands = {{"X", sum}, {"gamma", gamma}, {"beta", node.inputs.at(6)}};
  Mapped drafts = {e.finish(fmt::format("{} = {}", e.left(), text)), norm};
  if (node.outputs.size() < 2 || node.outputs[1].empty()) return drafts;
  IndexExpr count(m, node, 1);
  const std::string r = count.reduced(sizes[1]);
  drafts.push_back(count.finish(
      fmt::format("{} += {}", count.left(),
                  node.has_input(7) ? count.at(node.inputs[7], {"i0", r}) : "0 * " + r)));
  return drafts;
}

// alpha A B, with the last two axes of either exchanged.
Mapped express_fused_matmul(const Mapping& m, const Node& node) {
  if (node.integer("transBatchA", 0) != 0 || node.integer("transBatchB", 0) != 0) {
    throw NotMapped("it transposes the batch axes too");
  }
  IndexExpr e(m, node);
  const Sizes a = sizes_of_value(m, node.inputs.at(0)), b = sizes_of_value(m, node.inputs.at(1));
  const size_t rank = e.sizes().size();
  if (a.size() < 2 || b.size() < 2) throw NotMapped("an operand has less than two axes");
  const bool turns_a = node.integer("transA", 0) != 0, turns_b = node.integer("transB", 0) != 0;
  const std::string k = e.reduced(a[a.size() - (turns_a ? 2 : 1)]);
  const auto element = [&](size_t input, const Sizes& sizes, bool turns, const std::string& row,
                           const std::string& column) {
    std::vector<std::string> at;
    for (size_t d = 0; d + 2 < sizes.size(); ++d) {
      at.push_back(sizes[d] == 1 ? "0" : e.indices().at(rank - sizes.size() + d));
    }
    at.push_back(turns ? column : row);
    at.push_back(turns ? row : column);
    return e.at(node.inputs[input], at);
  };
  const std::string x = element(0, a, turns_a, e.indices()[rank - 2], k),
                    y = element(1, b, turns_b, k, e.indices()[rank - 1]);
  return {e.finish(fmt::format("{} += {} * {}; {} = {} * {}", e.left("S"), x, y, e.left(),
                               e.left("S"), literal(node.real("alpha", 1))))};
}

// Codes of a function of what codes are worth. Scale and zero point stand behind the codes.
Mapped express_code_function(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  e.accumulate(ElemType::f32);
  const std::string real = real_of(e, m, node, 0, e.element(node.inputs.at(0)));
  const std::string value = node.op == "QLinearSigmoid"
                                ? fmt::format("1 / (1 + exp(-({})))", real)
                                : fmt::format("select({0} > 0, {0}, ({0}) * {1})", real,
                                              literal(node.real("alpha", 0.01)));
  return {e.finish(
      fmt::format("{} = {}", e.left(), code_of(e, m, node, "(" + value + ")", 3, 4, "0")))};
}

// Codes of several tensors side by side: scale and zero point of the result, then each with its own.
Mapped express_joined_codes(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  e.accumulate(ElemType::f32);
  const size_t axis = checked_axis(node.integer("axis", 0), e.sizes().size());
  if (node.inputs.size() < 5 || node.inputs.size() % 3 != 2 || node.inputs.size() > 122) {
    throw NotMapped("it joins none or more than 40 tensors");
  }
  std::string text;
  int64_t end = e.sizes()[axis];
  for (size_t input = node.inputs.size(); input > 2;) {
    input -= 3;
    const int64_t begin = end - sizes_of_value(m, node.inputs[input]).at(axis);
    std::vector<std::string> at = e.indices();
    if (begin > 0) at[axis] = fmt::format("{} - {}", at[axis], begin);
    const std::string own =
        fmt::format("({})", real_of(e, m, node, input, e.at(node.inputs[input], at)));
    text = text.empty() ? own
                        : fmt::format("select({} < {}, {}, {})", e.indices()[axis], end, own, text);
    end = begin;
  }
  return {e.finish(fmt::format("{} = {}", e.left(), code_of(e, m, node, text, 0, 1, "0")))};
}

}  // namespace

Draft activated(const Mapping& m, const Node& node, const std::string& x) {
  const std::string op = node.text("activation", "");
  const Attribute* given = node.find("activation_params");
  const auto parameter = [&](size_t i, double fallback) {
    return literal(given != nullptr && i < given->floats.size() ? given->floats[i] : fallback);
  };
  IndexExpr e(m, node);
  std::string v = e.made_at(x, e.sizes(), m.elem(node.outputs.at(0)), e.indices());
  if (node.has_input(3)) v = fmt::format("({} + {})", v, e.element(node.inputs[3]));
  std::string text;
  if (op.empty()) text = v;
  if (op == "Relu") text = fmt::format("max({}, 0)", v);
  if (op == "Tanh") text = fmt::format("tanh({})", v);
  if (op == "Sigmoid") text = fmt::format("1 / (1 + exp(-{}))", v);
  if (op == "LeakyRelu")
    text = fmt::format("select({0} > 0, {0}, {0} * {1})", v, parameter(0, 0.01));
  if (op == "Clip") {
    text = fmt::format("max(min({}, {}), {})", v, parameter(1, 3.4028234e38),
                       parameter(0, -3.4028234e38));
  }
  if (op == "HardSigmoid") {
    text = fmt::format("max(min({} * {} + {}, 1), 0)", v, parameter(0, 0.2), parameter(1, 0.5));
  }
  if (text.empty()) {
    throw NotMapped(
        fmt::format("its activation is {}; expected Relu, LeakyRelu, Clip, Tanh, "
                    "Sigmoid or HardSigmoid",
                    op));
  }
  return e.finish(fmt::format("{} = {}", e.left(), text));
}

const MapFns& whole_contrib_mappings() {
  static const MapFns kMappings = {{"com.microsoft.BiasGelu", express_biased_gelu},
                                   {"com.microsoft.FastGelu", express_biased_gelu},
                                   {"com.microsoft.EmbedLayerNormalization", express_embedding},
                                   {"com.microsoft.FusedMatMul", express_fused_matmul},
                                   {"com.microsoft.QLinearSigmoid", express_code_function},
                                   {"com.microsoft.QLinearLeakyRelu", express_code_function},
                                   {"com.microsoft.QLinearConcat", express_joined_codes}};
  return kMappings;
}

}  // namespace tilewright::onnx
