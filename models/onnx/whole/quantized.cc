// Expressions of whole models: quantized operators. Sums are of 32 bits and exact; what they are worth is
// computed in f32.
#include <fmt/format.h>

#include <algorithm>

#include "models/onnx/whole/codes.h"
#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/integer_sums.h"
#include "models/onnx/whole/whole.h"

namespace tilewright::onnx {
namespace {

Mapped express_quantization(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const Sizes scales = sizes_of_value(m, node.inputs.at(1));
  if (const int64_t block = node.integer("block_size", 0); block != 0) {
    std::vector<std::string> at = e.indices();
    std::string& along = at[checked_axis(node.integer("axis", 1), e.sizes().size())];
    along = fmt::format("{} // {}", along, block);
    std::string code =
        fmt::format("round({} / {})", e.element(node.inputs[0]), e.at(node.inputs[1], at));
    if (node.has_input(2)) code += " + " + e.at(node.inputs[2], at);
    return {e.finish(
        fmt::format("{} = {}", e.left(), within_limits(m.elem(node.outputs.at(0)), code)))};
  }
  const std::string index =
      scales.empty() || scales == Sizes{1}
          ? "0"
          : e.indices()[checked_axis(node.integer("axis", 1), e.sizes().size())];
  const std::string code = code_of(e, m, node, e.element(node.inputs[0]), 1, 2, index);
  return {e.finish(fmt::format("{} = {}", e.left(), code))};
}

// The largest or the smallest elements of rows, as a layer.
Draft extremes_of_rows(const Mapping& m, const Node& node, const std::string& x,
                       const std::string& assignment, const std::string& output) {
  const Sizes sizes = sizes_of_value(m, x);
  IndexExpr e(m, node, output, Sizes(sizes.begin(), sizes.end() - 1), m.elem(x));
  std::vector<std::string> at(e.indices().begin(),
                              e.indices().begin() + static_cast<int64_t>(sizes.size()) - 1);
  at.push_back(e.reduced(sizes.back()));
  return e.finish(
      fmt::format("{} {} {}", e.left(), assignment, e.made_at(x, sizes, m.elem(x), at)));
}

Mapped express_dynamic_quantization(const Mapping& m, const Node& node) {
  if (node.outputs.size() < 3 || node.outputs[1].empty() || node.outputs[2].empty()) {
    throw NotMapped("its scale and zero point are left out");
  }
  return dynamic_codes(m, node, node.inputs.at(0),
                       {node.outputs[0], node.outputs[1], node.outputs[2]});
}

// a * b / c in f32, each a scale or one scale for each place of `index`. "" for no c.
std::string factor(IndexExpr& e, const Mapping& m, const std::string& a, const std::string& b,
                   const std::string& c, const std::string& index) {
  const auto x = known_elements(m, a), y = known_elements(m, b);
  const auto z = c.empty() ? std::vector<double>{1} : known_elements(m, c);
  if (x && y && z && x->size() == 1 && z->size() == 1) {
    std::vector<double> all;
    for (double own : *y) {
      const float product = static_cast<float>((*x)[0]) * static_cast<float>(own);
      all.push_back(product / static_cast<float>((*z)[0]));
    }
    return all.size() == 1 ? literal(all[0]) : e.table("factor", ElemType::f32, all, index);
  }
  std::string text =
      fmt::format("{} * {}", parameter_at(e, m, a, index), parameter_at(e, m, b, index));
  if (!c.empty()) text += " / " + parameter_at(e, m, c, index);
  return "(" + text + ")";
}

// The codes of sums: times both scales, over that of the results.
Draft requantized(const Mapping& m, const Node& node, const std::string& sums, size_t a_scale,
                  size_t b_scale, size_t scale, const std::string& index) {
  IndexExpr e(m, node);
  e.accumulate(ElemType::f32);
  const std::string sum = e.made_at(sums, e.sizes(), ElemType::i32, e.indices());
  std::string code = fmt::format(
      "round({} * {})", sum,
      factor(e, m, node.inputs.at(a_scale), node.inputs.at(b_scale), node.inputs.at(scale), index));
  const Codes made = codes_at(m, node, scale, scale + 1);
  if (!made.zero.empty()) code += " + " + parameter_at(e, m, made.zero, index);
  return e.finish(
      fmt::format("{} = {}", e.left(), within_limits(m.elem(node.outputs.at(0)), code)));
}

Mapped express_integer_matmul(const Mapping& m, const Node& node) {
  return integer_product(m, node, codes_at(m, node, 0, 2), codes_at(m, node, 1, 3),
                         node.outputs.at(0));
}

Mapped express_linear_matmul(const Mapping& m, const Node& node) {
  if (!sizes_of_value(m, node.inputs.at(1)).empty() &&
      sizes_of_value(m, node.inputs[1]) != Sizes{1}) {
    throw NotMapped("it scales each row by itself");
  }
  const std::string sums = node.outputs.at(0) + "/sums";
  Mapped drafts = integer_product(m, node, codes_at(m, node, 0, 2), codes_at(m, node, 3, 5), sums);
  const std::string column =
      fmt::format("i{}", std::max<size_t>(1, sizes_of_value(m, node.outputs[0]).size()) - 1);
  drafts.push_back(requantized(m, node, sums, 1, 4, 6, column));
  return drafts;
}

Mapped express_integer_convolution(const Mapping& m, const Node& node) {
  return integer_convolution(m, node, codes_at(m, node, 0, 2), codes_at(m, node, 1, 3), "",
                             node.outputs.at(0));
}

Mapped express_linear_convolution(const Mapping& m, const Node& node) {
  const std::string sums = node.outputs.at(0) + "/sums";
  Mapped drafts = integer_convolution(m, node, codes_at(m, node, 0, 2), codes_at(m, node, 3, 5),
                                      node.has_input(8) ? node.inputs[8] : "", sums);
  drafts.push_back(requantized(m, node, sums, 1, 4, 6, "i1"));
  return drafts;
}

// A product of matrices with a bias of the sums' type. Without a scale of the results, these are floats.
Mapped express_codes_gemm(const Mapping& m, const Node& node) {
  if (node.integer("transA", 0) != 0 || node.real("alpha", 1) != 1) {
    throw NotMapped("it turns or scales its first operand");
  }
  Codes b = codes_at(m, node, 3, 5);
  b.turned = node.integer("transB", 0) != 0;
  const std::string product = node.outputs.at(0) + "/product";
  std::string sums = product;
  Mapped drafts = integer_product(m, node, codes_at(m, node, 0, 2), b, product);
  if (node.has_input(6)) {
    sums = node.outputs[0] + "/sums";
    IndexExpr e(m, node, sums, sizes_of_value(m, node.outputs[0]), ElemType::i32);
    e.accumulate(ElemType::f32);
    const std::string sum = e.made_at(product, e.sizes(), ElemType::i32, e.indices());
    drafts.push_back(
        e.finish(fmt::format("{} = {} + {}", e.left(), sum, e.element(node.inputs[6]))));
  }
  if (node.has_input(7)) {
    drafts.push_back(requantized(m, node, sums, 1, 4, 7, "i1"));
    return drafts;
  }
  IndexExpr e(m, node);
  const std::string sum = e.made_at(sums, e.sizes(), ElemType::i32, e.indices());
  const std::string scale = factor(e, m, node.inputs.at(1), node.inputs.at(4), "", "i1");
  drafts.push_back(e.finish(fmt::format("{} = {} * {}", e.left(), sum, scale)));
  return drafts;
}

// Sums as floats: times both scales, and with a bias along the last axis; "" for none.
Draft sums_as_floats(const Mapping& m, const Node& node, const std::string& sums,
                     const std::string& a_scale, const std::string& b_scale, size_t bias) {
  IndexExpr e(m, node);
  const std::string column = e.indices().back();
  std::string text = fmt::format("{} * {}", e.made_at(sums, e.sizes(), ElemType::i32, e.indices()),
                                 factor(e, m, a_scale, b_scale, "", column));
  if (node.has_input(bias)) text += " + " + e.element(node.inputs[bias]);
  return e.finish(fmt::format("{} = {}", e.left(), text));
}

// MatMulInteger with its scales and a bias behind it.
Mapped express_codes_to_floats(const Mapping& m, const Node& node) {
  const std::string sums = node.outputs.at(0) + "/sums";
  Mapped drafts = integer_product(m, node, codes_at(m, node, 0, 4), codes_at(m, node, 1, 5), sums);
  drafts.push_back(sums_as_floats(m, node, sums, node.inputs.at(2), node.inputs.at(3), 6));
  return drafts;
}

// The same of floats that are quantized in front of it.
Mapped express_dynamic_product(const Mapping& m, const Node& node) {
  const std::string &name = node.outputs.at(0), sums = name + "/sums";
  const DynamicCodes made = {name + "/codes", name + "/scale", name + "/zero"};
  Mapped drafts = dynamic_codes(m, node, node.inputs.at(0), made);
  const Mapped product =
      integer_product(m, node, {made.codes, made.zero}, codes_at(m, node, 1, 3), sums);
  drafts.insert(drafts.end(), product.begin(), product.end());
  drafts.push_back(sums_as_floats(m, node, sums, made.scale, node.inputs.at(2), 4));
  return drafts;
}

// A value that a model dequantizes: (codes - zero) * scale.
struct Dequantized {
  Codes codes;
  std::string scale;
};

// Nothing for values that are none, or that have other scales than one or one for each place along an axis.
std::optional<Dequantized> dequantized(const Mapping& m, const std::string& value,
                                       std::optional<size_t> axis) {
  const Node* node = m.graph.producer(value);
  if (node == nullptr || node->op != "DequantizeLinear" || node->inputs.size() < 2 ||
      node->integer("block_size", 0) != 0) {
    return std::nullopt;
  }
  const ElemType type = m.elem(node->inputs[0]);
  if (type != ElemType::i8 && type != ElemType::u8) return std::nullopt;
  if (m.elem(value) != ElemType::f32 || !known_elements(m, node->inputs[1])) return std::nullopt;
  const Sizes scales = sizes_of_value(m, node->inputs[1]);
  const size_t rank = m.shape(value).size();
  const bool one = scales.empty() || scales == Sizes{1};
  const bool along =
      axis && scales.size() == 1 && checked_axis(node->integer("axis", 1), rank) == *axis;
  if (!one && !along) return std::nullopt;
  return Dequantized{codes_at(m, *node, 0, 2), node->inputs[1]};
}

// Sums of products of codes as floats, with a bias along `index`.
Draft rescaled(const Mapping& m, const Node& node, const std::string& sums, const Dequantized& a,
               const Dequantized& b, const std::string& index) {
  IndexExpr e(m, node);
  const std::string sum = e.made_at(sums, e.sizes(), ElemType::i32, e.indices());
  std::string text = fmt::format("{} * {}", sum, factor(e, m, a.scale, b.scale, "", index));
  if (node.has_input(2)) {
    text += " + " + (node.op == "Gemm" ? e.element(node.inputs[2]) : e.at(node.inputs[2], {index}));
  }
  return e.finish(fmt::format("{} = {}", e.left(), text));
}

}  // namespace

// Rows come first: their extremes are found in vectors.
Mapped dynamic_codes(const Mapping& m, const Node& node, const std::string& x,
                     const DynamicCodes& made) {
  const std::string most = made.scale + "/most", least = made.scale + "/least";
  const Sizes sizes = sizes_of_value(m, x);
  Sizes rows = sizes;
  if (rows.empty()) throw NotMapped("it quantizes a number");
  rows.pop_back();
  if (rows.empty()) rows = {1};
  m.graph.values().declare_made(made.codes, DataType::Uint8, m.shape(x));
  m.graph.values().declare_made(made.scale, DataType::Float, {});
  m.graph.values().declare_made(made.zero, DataType::Uint8, {});
  const auto extreme = [&](IndexExpr& e, const std::string& name, const std::string& assignment,
                           const std::string& of) {
    std::vector<std::string> at;
    for (int64_t size : rows) at.push_back(e.reduced(size));
    return fmt::format("{}[i0] {} {}; ", name, assignment, e.made_at(of, rows, m.elem(x), at));
  };
  IndexExpr s(m, node, made.scale, {}, ElemType::f32);
  const std::string span = "(max(H[i0], 0) - min(L[i0], 0))";
  const std::string both = extreme(s, "H", "max=", most) + extreme(s, "L", "min=", least);
  Draft first =
      s.finish(fmt::format("{0}{1} = select({2} == 0, 1, {2} / 255)", both, s.left(), span));
  IndexExpr z(m, node, made.zero, {}, ElemType::u8);
  const std::string lowest = extreme(z, "L", "min=", least);
  const std::string off = fmt::format("round(-(min(L[i0], 0) / {}))", z.at(made.scale, {}));
  Draft second =
      z.finish(fmt::format("{}{} = {}", lowest, z.left(), within_limits(ElemType::u8, off)));
  IndexExpr y(m, node, made.codes, sizes, ElemType::u8);
  const std::string code =
      fmt::format("round({} / {}) + {}", y.element(x), y.at(made.scale, {}), y.at(made.zero, {}));
  Draft third = y.finish(fmt::format("{} = {}", y.left(), within_limits(ElemType::u8, code)));
  return {extremes_of_rows(m, node, x, "max=", most), extremes_of_rows(m, node, x, "min=", least),
          first, second, third};
}

std::optional<Mapped> product_of_codes(const Mapping& m, const Node& node) {
  const std::string op = node.full_op();
  const bool convolves = op == "Conv";
  if (!convolves && op != "MatMul" && op != "Gemm") return std::nullopt;
  if (!m.graph.value(node.inputs.at(1)).constant) return std::nullopt;
  const bool plain =
      node.real("alpha", 1) == 1 && node.real("beta", 1) == 1 && node.integer("transA", 0) == 0;
  const bool turned = node.integer("transB", 0) != 0;
  const size_t rank = m.shape(node, 1).size();
  if (!plain || rank < 2 || m.shape(node, 0).size() < 2) return std::nullopt;
  const auto a = dequantized(m, node.inputs[0], std::nullopt);
  auto b = dequantized(m, node.inputs[1], convolves ? 0 : rank - (turned ? 2 : 1));
  if (!a || !b) return std::nullopt;
  b->codes.turned = turned;
  const std::string sums = node.outputs.at(0) + "/sums";
  const std::string channel =
      convolves ? "i1" : fmt::format("i{}", m.shape(node.outputs[0]).size() - 1);
  Mapped drafts = convolves ? integer_convolution(m, node, a->codes, b->codes, "", sums)
                            : integer_product(m, node, a->codes, b->codes, sums);
  drafts.push_back(rescaled(m, node, sums, *a, *b, channel));
  return drafts;
}

const MapFns& whole_quantized_mappings() {
  static const MapFns kMappings = {{"QuantizeLinear", express_quantization},
                                   {"DynamicQuantizeLinear", express_dynamic_quantization},
                                   {"MatMulInteger", express_integer_matmul},
                                   {"QLinearMatMul", express_linear_matmul},
                                   {"ConvInteger", express_integer_convolution},
                                   {"QLinearConv", express_linear_convolution},
                                   {"com.microsoft.QuantizeLinear", express_quantization},
                                   {"com.microsoft.MatMulIntegerToFloat", express_codes_to_floats},
                                   {"com.microsoft.DynamicQuantizeMatMul", express_dynamic_product},
                                   {"com.microsoft.QGemm", express_codes_gemm}};
  return kMappings;
}

}  // namespace tilewright::onnx
