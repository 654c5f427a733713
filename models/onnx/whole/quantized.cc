// Expressions of whole models: quantized operators. Sums are of 32 bits and exact; what they are worth is
// computed in f32.
#include <fmt/format.h>

#include <algorithm>

#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"
#include "models/onnx/window.h"

namespace tilewright::onnx {
namespace {

std::string within_limits(ElemType type, const std::string& x) {
  if (type == ElemType::u8) return fmt::format("max(min({}, 255), 0)", x);
  if (type == ElemType::i8) return fmt::format("max(min({}, 127), (-128))", x);
  throw NotMapped(fmt::format("its results are {}; expected u8 or i8", to_string(type)));
}

// A scale or a zero point: one for all, or one for each place along an axis.
std::string parameter_at(IndexExpr& e, const Mapping& m, const std::string& value,
                         const std::string& index) {
  const Sizes sizes = sizes_of_value(m, value);
  if (sizes.size() > 1) throw NotMapped("its scales or zero points have several axes");
  const bool one = sizes.empty() || sizes[0] == 1;
  return e.at(value, sizes.empty() ? std::vector<std::string>{} : std::vector{one ? "0" : index});
}

// "(x - zero)", or x without a zero point.
std::string without_zero(IndexExpr& e, const Mapping& m, const Node& node, size_t zero,
                         const std::string& x, const std::string& index) {
  if (!node.has_input(zero)) return x;
  return fmt::format("({} - {})", x, parameter_at(e, m, node.inputs[zero], index));
}

Mapped express_quantization(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  if (node.integer("block_size", 0) != 0) throw NotMapped("its scales are those of blocks");
  const std::string& scale = node.inputs.at(1);
  const bool one = sizes_of_value(m, scale).empty() || sizes_of_value(m, scale) == Sizes{1};
  const std::string index =
      one ? "0" : e.indices()[checked_axis(node.integer("axis", 1), e.sizes().size())];
  std::string text =
      fmt::format("round({} / {})", e.element(node.inputs[0]), parameter_at(e, m, scale, index));
  if (node.has_input(2)) text += " + " + parameter_at(e, m, node.inputs[2], index);
  return {
      e.finish(fmt::format("{} = {}", e.left(), within_limits(m.elem(node.outputs.at(0)), text)))};
}

// The largest and the smallest of all elements and of 0, as statements, and their names.
std::string extremes_of(IndexExpr& e, const Mapping& m, const std::string& x) {
  std::vector<std::string> at;
  for (int64_t size : sizes_of_value(m, x)) at.push_back(e.reduced(size));
  const std::string element = e.at(x, at);
  return fmt::format("H[i0] max= {0}; L[i0] min= {0}; ", element);
}

// Scale and zero point of all elements together, so that 0 is exact.
Mapped express_dynamic_quantization(const Mapping& m, const Node& node) {
  if (node.outputs.size() < 3 || node.outputs[1].empty() || node.outputs[2].empty()) {
    throw NotMapped("its scale and zero point are left out");
  }
  const std::string &x = node.inputs.at(0), &scale = node.outputs[1], &zero = node.outputs[2];
  const std::string span = "(max(H[i0], 0) - min(L[i0], 0))";
  IndexExpr s(m, node, 1);
  const std::string extremes = extremes_of(s, m, x);
  Draft first =
      s.finish(fmt::format("{0}{1} = select({2} == 0, 1, {2} / 255)", extremes, s.left(), span));
  IndexExpr z(m, node, 2);
  std::vector<std::string> at;
  for (int64_t size : sizes_of_value(m, x)) at.push_back(z.reduced(size));
  const std::string least = fmt::format("L[i0] min= {}; ", z.at(x, at));
  const std::string off = fmt::format("round(-(min(L[i0], 0) / {}))", z.at(scale, {}));
  Draft second =
      z.finish(fmt::format("{}{} = {}", least, z.left(), within_limits(ElemType::u8, off)));
  IndexExpr y(m, node);
  const std::string code =
      fmt::format("round({} / {}) + {}", y.element(x), y.at(scale, {}), y.at(zero, {}));
  Draft third = y.finish(fmt::format("{} = {}", y.left(), within_limits(ElemType::u8, code)));
  return {first, second, third};
}

// Places of the operands of a quantized product among the inputs.
struct QuantizedInputs {
  size_t a, a_zero, b, b_zero;
};

Draft integer_sums(const Mapping& m, const Node& node, const QuantizedInputs& in,
                   const std::string& output) {
  IndexExpr e(m, node, output, sizes_of_value(m, node.outputs.at(0)), ElemType::i32);
  e.accumulate(ElemType::i32);
  const Factors f = factors_of(e, m, node.inputs.at(in.a), node.inputs.at(in.b));
  const std::string x = without_zero(e, m, node, in.a_zero, f.a, f.row);
  const std::string w = without_zero(e, m, node, in.b_zero, f.b, f.column);
  return e.finish(fmt::format("{} += {} * {}", e.left(), x, w));
}

// Sums of windows in 32 bits, with a bias where there is one. The codes around the map are those of 0.
Mapped integer_windows(const Mapping& m, const Node& node, const QuantizedInputs& in, size_t bias,
                       const std::string& output) {
  const Sizes w = sizes_of_value(m, node.inputs.at(in.b));
  Sizes x = sizes_of_value(m, node.inputs.at(in.a));
  if (x.size() < 3 || x.size() != w.size()) throw NotMapped("its operands are no maps");
  const Shape sizes(m.shape(node.inputs[in.a]).begin() + 2, m.shape(node.inputs[in.a]).end());
  const auto window = window_of(node, sizes, Sizes(w.begin() + 2, w.end()));
  const int64_t groups = node.integer("group", 1);
  if (!window || groups < 1 || w[0] % groups != 0 || w[1] * groups != x[1]) {
    throw NotMapped("its window or its groups are not such as were expected");
  }
  Mapped drafts;
  std::string map = node.inputs[in.a];
  const ElemType type = m.elem(map);
  std::vector<int64_t> front(2, 0), behind = front;
  front.insert(front.end(), window->before.begin(), window->before.end());
  behind.insert(behind.end(), window->after.begin(), window->after.end());
  if (std::ranges::any_of(front, [](int64_t p) { return p > 0; }) ||
      std::ranges::any_of(behind, [](int64_t p) { return p > 0; })) {
    const auto zero = node.has_input(in.a_zero) ? m.input(node, in.a_zero).scalar() : 0;
    if (!zero) throw NotMapped("it pads, and its zero point is calculated");
    const std::string padded = output + "/padded";
    drafts.push_back(zero_padded(m, node, map, front, behind, literal(*zero), padded));
    map = padded;
    for (size_t d = 0; d < x.size(); ++d) x[d] += front[d] + behind[d];
  }
  IndexExpr e(m, node, output, sizes_of_value(m, node.outputs.at(0)), ElemType::i32);
  e.accumulate(ElemType::i32);
  std::vector<std::string> at = {"i0"}, weight = {"i1"};
  weight.push_back(e.reduced(w[1]));
  at.push_back(groups == 1 ? weight[1]
                           : fmt::format("i1 // {} * {} + {}", w[0] / groups, w[1], weight[1]));
  for (size_t d = 0; d < window->rank(); ++d) {
    weight.push_back(e.reduced(w[d + 2]));
    at.push_back(fmt::format("{} * {} + {} * {}", e.indices().at(d + 2), window->stride[d],
                             weight.back(), window->dilation[d]));
  }
  const std::string element = without_zero(e, m, node, in.a_zero, e.made_at(map, x, type, at), "0");
  const std::string code = e.made_at(node.inputs[in.b], w, m.elem(node.inputs[in.b]), weight);
  const std::string term =
      fmt::format("{} * {}", element, without_zero(e, m, node, in.b_zero, code, "i1"));
  const bool has_bias = node.has_input(bias);
  drafts.push_back(e.finish(has_bias ? fmt::format("{0} += {1}; {2} = {0} + {3}", e.left("S"), term,
                                                   e.left(), e.at(node.inputs[bias], {"i1"}))
                                     : fmt::format("{} += {}", e.left(), term)));
  return drafts;
}

// The codes of sums: times both scales, over that of the results, which stand behind in.b_zero.
Draft requantized(const Mapping& m, const Node& node, const QuantizedInputs& in,
                  const std::string& sums, bool by_channel) {
  IndexExpr e(m, node);
  e.accumulate(ElemType::f32);
  const std::string& index = by_channel ? e.indices().at(1) : e.indices().back();
  const std::string sum = e.made_at(sums, e.sizes(), ElemType::i32, e.indices());
  const auto scale = [&](size_t i) { return parameter_at(e, m, node.inputs.at(i), index); };
  const std::string code = fmt::format("round({} * ({} * {} / {})) + {}", sum, scale(in.a + 1),
                                       scale(in.b + 1), scale(in.b_zero + 1), scale(in.b_zero + 2));
  return e.finish(
      fmt::format("{} = {}", e.left(), within_limits(m.elem(node.outputs.at(0)), code)));
}

constexpr QuantizedInputs kInteger = {0, 2, 1, 3}, kLinear = {0, 2, 3, 5};

Mapped express_integer_matmul(const Mapping& m, const Node& node) {
  return {integer_sums(m, node, kInteger, node.outputs.at(0))};
}

Mapped express_linear_matmul(const Mapping& m, const Node& node) {
  if (!sizes_of_value(m, node.inputs.at(1)).empty() &&
      sizes_of_value(m, node.inputs[1]) != Sizes{1}) {
    throw NotMapped("it scales each row by itself");
  }
  const std::string sums = node.outputs.at(0) + "/sums";
  return {integer_sums(m, node, kLinear, sums), requantized(m, node, kLinear, sums, false)};
}

Mapped express_integer_convolution(const Mapping& m, const Node& node) {
  return integer_windows(m, node, kInteger, 4, node.outputs.at(0));
}

Mapped express_linear_convolution(const Mapping& m, const Node& node) {
  const std::string sums = node.outputs.at(0) + "/sums";
  Mapped drafts = integer_windows(m, node, kLinear, 8, sums);
  drafts.push_back(requantized(m, node, kLinear, sums, true));
  return drafts;
}

}  // namespace

const MapFns& whole_quantized_mappings() {
  static const MapFns kMappings = {{"QuantizeLinear", express_quantization},
                                   {"DynamicQuantizeLinear", express_dynamic_quantization},
                                   {"MatMulInteger", express_integer_matmul},
                                   {"QLinearMatMul", express_linear_matmul},
                                   {"ConvInteger", express_integer_convolution},
                                   {"QLinearConv", express_linear_convolution}};
  return kMappings;
}

}  // namespace tilewright::onnx
