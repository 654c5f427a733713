// Products with quantized operands, and weights that a model dequantizes.
#include <fmt/format.h>

#include <algorithm>

#include "models/onnx/mapping.h"
#include "models/onnx/step.h"

namespace tilewright::onnx {
namespace {

// Whether the zero points of a weight are all 0, or absent.
bool no_zeros(const Value& zeros) {
  const Tensor* t = zeros.tensor;
  if (t == nullptr || !t->readable()) return false;
  for (int64_t i = 0; i < t->count; ++i) {
    if (t->at(i) != 0) return false;
  }
  return true;
}

std::string scale_type(const Mapping& m, const std::string& scales) {
  const ElemType type = m.elem(scales);
  if (type != ElemType::f32 && type != ElemType::f16 && type != ElemType::bf16) {
    throw NotMapped(fmt::format("its scales are {}; expected f32, f16 or bf16", to_string(type)));
  }
  return to_string(type);
}

// The key `w.scale` where it is not the usual one.
void add_scale(Draft* d, const std::string& type) {
  if (type != "f32") d->spec.text("w.scale", type);
}

// "u4" for a signed type whose zero points are not 0: codes and zero points are shifted alike.
std::string unsigned_name(ElemType type) { return fmt::format("u{}", bits_of(type)); }

bool is_weight_type(ElemType type) {
  switch (type) {
    case ElemType::i8:
    case ElemType::u8:
    case ElemType::i4:
    case ElemType::u4:
    case ElemType::i2:
    case ElemType::u2:
    case ElemType::f8e4m3:
    case ElemType::f8e5m2:
    case ElemType::f4e2m1: return true;
    default: return false;
  }
}

// The elements along k that share a scale, -1 for all; nothing where scales lie in another way.
std::optional<int64_t> group_of(const Node& dequantize, const Shape& scales, size_t rank,
                                size_t k_axis, size_t n_axis) {
  if (scales.empty() || (scales.size() == 1 && scales[0] == Extent(1))) return -1;
  const int64_t block = dequantize.integer("block_size", 0);
  auto axis = axis_of(dequantize.integer("axis", 1), rank);
  if (!axis) return std::nullopt;
  if (block > 0) return *axis == k_axis && rank == 2 ? std::optional(block) : std::nullopt;
  const bool columns = *axis == n_axis && scales.size() == 1;
  return columns ? std::optional<int64_t>(-1) : std::nullopt;
}

// The zero points of MatMulNBits: none for codes that are shifted by half their range.
std::string zero_type(const Mapping& m, const Node& node, int64_t bits) {
  if (!node.has_input(3)) return "none";
  const DataType type = m.input(node, 3).type;
  if (type == DataType::Uint8) return fmt::format("u{}", bits);
  if (type == DataType::Float16) return "f16";
  throw NotMapped(
      fmt::format("its zero points are {}; expected packed integers or f16", describe(type)));
}

Mapped map_matmul_nbits(const Mapping& m, const Node& node) {
  const int64_t bits = node.integer("bits", 4), block = node.integer("block_size", 0);
  const int64_t k = node.integer("K", 0), n = node.integer("N", 0);
  if (bits != 2 && bits != 4 && bits != 8) {
    throw NotMapped(fmt::format("its weights have {} bits; expected 2, 4 or 8", bits));
  }
  if (k < 1 || n < 1 || block < 1) {
    throw NotMapped(
        fmt::format("K={}, N={}, block_size={}; expected numbers of 1 or more", k, n, block));
  }
  if (node.has_input(4)) throw NotMapped("its rows of weights are reordered (g_idx)");
  const Shape& a = m.shape(node, 0);
  if (a.empty() || a.back() != Extent(k)) {
    throw NotMapped(
        fmt::format("rows of {} meet columns of {}", a.empty() ? "no size" : a.back().text(), k));
  }
  const ElemType type = m.elem(node.inputs[0]);
  const std::string zero = zero_type(m, node, bits);
  Draft d = m.draft("matmul", node);
  d.spec.size("m", m.product(a, 0, a.size() - 1)).number("n", n).number("k", k);
  m.add_type(&d, type);
  // Level 4 allows products of bytes.
  if (node.integer("accuracy_level", 0) == 4) d.spec.text("a.dtype", "i8");
  d.spec.text("w.dtype", fmt::format("{}{}", zero == "none" ? "i" : "u", bits));
  d.spec.number("w.group", std::min(block, k));
  add_scale(&d, scale_type(m, node.inputs.at(2)));
  if (zero != "none") d.spec.text("w.zero", zero);
  d.layer.operands = {{"A", node.inputs[0]}, {"B", node.inputs.at(1)}, {"B.scale", node.inputs[2]}};
  if (zero != "none") d.layer.operands["B.zero"] = node.inputs[3];
  std::vector<std::string> steps;
  if (node.has_input(5)) {
    d.layer.operands["bias"] = node.inputs[5];
    steps.emplace_back("bias");
  }
  m.fuse(&d, a.size() - 1, steps);
  return {d};
}

// Sums of products of integers, in 32 bits.
Mapped map_integer_product(const Mapping& m, const Node& node, size_t b, const std::string& note) {
  const ElemType type = m.elem(node.inputs.at(0)), weight = m.elem(node.inputs.at(b));
  Draft d = matrix_product(m, node, node.inputs[0], node.inputs[b], false, false);
  d.spec.text("dtype", to_string(type));
  if (weight != type) d.spec.text("w.dtype", to_string(weight));
  d.layer.note = note;
  return {d};
}

Mapped map_matmul_integer(const Mapping& m, const Node& node) {
  const bool plain = (!node.has_input(2) || no_zeros(m.input(node, 2))) &&
                     (!node.has_input(3) || no_zeros(m.input(node, 3)));
  return map_integer_product(m, node, 1, plain ? "" : "zero points are taken into account outside");
}

// A product of what a model quantizes as it runs, and how its sums become floats again:
// Cast(MatMulInteger(q, weight)) * (scale of q * scale of the weight).
struct DynamicProduct {
  const Node *product, *cast, *scales, *scaled;
  std::string weight_scale;
};

// The one that begins with a node that takes q; nothing where one of the steps is another one.
std::optional<DynamicProduct> dynamic_product(const Mapping& m, const Node& quantize,
                                              const Node& product) {
  const bool takes = product.full_op() == "MatMulInteger" && product.has_input(2) &&
                     product.inputs[0] == quantize.outputs[0] &&
                     product.inputs[2] == quantize.outputs[2];
  if (!takes || !m.input(product, 1).constant) return std::nullopt;
  const Node* cast = m.graph.only_user(product.outputs.at(0));
  if (cast == nullptr || cast->full_op() != "Cast") return std::nullopt;
  const Node* scaled = m.graph.only_user(cast->outputs.at(0));
  if (scaled == nullptr || scaled->full_op() != "Mul") return std::nullopt;
  const Node* scales = m.graph.producer(Graph::other_input(*scaled, cast->outputs[0]));
  if (scales == nullptr || scales->full_op() != "Mul" || scales->inputs.size() != 2) {
    return std::nullopt;
  }
  const std::string& of_q = quantize.outputs[1];
  const std::string& of_weight = Graph::other_input(*scales, of_q);
  const bool both = scales->inputs[0] == of_q || scales->inputs[1] == of_q;
  if (!both || !m.graph.value(of_weight).constant) return std::nullopt;
  return DynamicProduct{&product, cast, scales, scaled, of_weight};
}

Draft draft_of(const Mapping& m, const Node& quantize, const DynamicProduct& p) {
  Draft d =
      matrix_product(m, *p.product, quantize.inputs.at(0), p.product->inputs[1], false, false);
  const ElemType weight = m.elem(p.product->inputs[1]);
  const bool zeros = p.product->has_input(3) && !no_zeros(m.input(*p.product, 3));
  m.add_type(&d, m.elem(quantize.inputs[0]));
  d.spec.text("a.dtype", "i8");
  d.spec.text("w.dtype", zeros ? unsigned_name(weight) : to_string(weight));
  add_scale(&d, scale_type(m, p.weight_scale));
  d.layer.operands["B.scale"] = p.weight_scale;
  if (zeros) {
    d.spec.text("w.zero", unsigned_name(weight));
    d.layer.operands["B.zero"] = p.product->inputs[3];
  }
  d.layer.nodes.insert(d.layer.nodes.end(), {p.cast, p.scales, p.scaled, &quantize});
  d.layer.output = p.scaled->outputs.at(0);
  d.layer.note =
      "each row of A is quantized by itself and around 0; the model takes all of A at once";
  const Shape& out = m.shape(d.layer.output);
  if (!out.empty()) m.fuse(&d, out.size() - 1);
  return d;
}

// All products of what one node quantizes. Where it quantizes for anything else, too, they stay
// integer products, and the node has no spec.
Mapped map_dynamic_quantize(const Mapping& m, const Node& node) {
  Mapped drafts;
  if (node.outputs.size() != 3) throw NotMapped("it does not give codes, scale and zero point");
  for (const Node* user : m.graph.users(node.outputs[0])) {
    auto product = dynamic_product(m, node, *user);
    if (!product) {
      throw NotMapped(
          fmt::format("it quantizes for '{}', which is no product with a constant that "
                      "is scaled back by constants",
                      user->label()));
    }
    drafts.push_back(draft_of(m, node, *product));
  }
  if (drafts.empty()) throw NotMapped("it quantizes for no product");
  return drafts;
}

Mapped map_qlinear_matmul(const Mapping& m, const Node& node) {
  return map_integer_product(m, node, 3,
                             "zero points and the scaling to integers are applied outside");
}

}  // namespace

bool add_stored_weight(const Mapping& m, Draft* draft, const std::string& operand, size_t k_axis,
                       size_t n_axis) {
  const std::string value = draft->layer.operands.at(operand);
  const Node* node = m.graph.producer(value);
  if (node == nullptr || node->op != "DequantizeLinear" || !m.graph.value(value).constant ||
      node->inputs.size() < 2) {
    return false;
  }
  const Value &codes = m.input(*node, 0), &scales = m.input(*node, 1);
  std::optional<ElemType> type = elem_type(codes.type);
  if (!type || !is_weight_type(*type) || !codes.shape || !scales.shape) return false;
  auto group = group_of(*node, *scales.shape, codes.shape->size(), k_axis, n_axis);
  if (!group) return false;
  // In a whole model codes of bytes are calculated once, as any constant; of fewer bits, they stay.
  if (m.options.whole &&
      (bits_of(*type) >= 8 || is_float(*type) || k_axis != 0 || scales.tensor == nullptr)) {
    return false;
  }
  const bool zeros = node->has_input(2) && !no_zeros(m.input(*node, 2));
  if (zeros && (is_float(*type) || (m.options.whole && to_string(*type)[0] == 'i'))) return false;
  draft->spec.text("w.dtype", zeros ? unsigned_name(*type) : to_string(*type));
  if (*group > 0) draft->spec.number("w.group", *group);
  add_scale(draft, scale_type(m, node->inputs[1]));
  if (zeros) {
    draft->spec.text("w.zero", unsigned_name(*type));
    draft->layer.operands[operand + ".zero"] = node->inputs[2];
  }
  draft->layer.operands[operand] = node->inputs[0];
  draft->layer.operands[operand + ".scale"] = node->inputs[1];
  draft->layer.nodes.push_back(node);
  return true;
}

const MapFns& quantized_mappings() {
  static const MapFns kMappings = {{"com.microsoft.MatMulNBits", map_matmul_nbits},
                                   {"DynamicQuantizeLinear", map_dynamic_quantize},
                                   {"MatMulInteger", map_matmul_integer},
                                   {"QLinearMatMul", map_qlinear_matmul}};
  return kMappings;
}

}  // namespace tilewright::onnx
