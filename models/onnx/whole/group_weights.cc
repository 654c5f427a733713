// Products of whole models with stored weights: com.microsoft.MatMulNBits, and tilewright.QuantizedLinear, which the
// backend of torch.compile writes for its quantized layers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"
#include "runtime/tensor/element.h"

namespace tilewright::onnx {
namespace {

// The weight [n, k] as the file has it. Each column's codes begin at a byte, the lowest bits first, and fill up
// whole groups along k; each has a scale and a zero point.
struct NBits {
  int64_t bits, k, n, group;
  int64_t groups() const { return (k + group - 1) / group; }
  ElemType elem(bool is_signed) const {
    return *parse_elem_type(fmt::format("{}{}", is_signed ? "i" : "u", bits));
  }
};

NBits form_of(const Node& node) {
  const NBits w = {node.integer("bits", 4), node.integer("K", 0), node.integer("N", 0),
                   node.integer("block_size", 0)};
  if (w.bits != 2 && w.bits != 4 && w.bits != 8) {
    throw NotMapped(fmt::format("its weights have {} bits; expected 2, 4 or 8", w.bits));
  }
  if (w.k < 1 || w.n < 1 || w.group < 1) {
    throw NotMapped(
        fmt::format("K={}, N={}, block_size={}; expected numbers of 1 or more", w.k, w.n, w.group));
  }
  return w;
}

const Tensor& constant_of(const Mapping& m, const Node& node, size_t input, const char* what) {
  const Tensor* tensor = m.input(node, input).tensor;
  if (tensor == nullptr || !tensor->readable()) {
    throw NotMapped(
        fmt::format("its {} are calculated or in a file that is missing; expected a "
                    "constant",
                    what));
  }
  return *tensor;
}

// Bytes of a constant.
std::string bytes_of(const Tensor& tensor, int64_t count, const char* what) {
  if (tensor.count != count) {
    throw NotMapped(fmt::format("its {} are {} bytes; expected {}", what, tensor.count, count));
  }
  if (!tensor.raw.empty()) return std::string(tensor.raw);
  std::string bytes(static_cast<size_t>(count), '\0');
  for (int64_t i = 0; i < count; ++i) {
    bytes[static_cast<size_t>(i)] = static_cast<char>(tensor.whole_at(i));
  }
  return bytes;
}

// Codes [n, k]; signed ones are those less half the range, by their highest bit.
MadeConstant codes_of(const Mapping& m, const Node& node, const NBits& w, bool is_signed) {
  const int64_t group_bytes = (w.group * w.bits + 7) / 8, row = w.groups() * group_bytes;
  std::string bytes = bytes_of(constant_of(m, node, 1, "weights"), w.n * row, "weights");
  if (is_signed) {
    const int mask = w.bits == 8 ? 0x80 : w.bits == 4 ? 0x88 : 0xaa;
    for (char& byte : bytes) byte = static_cast<char>(byte ^ mask);
  }
  MadeConstant made{node.outputs.at(0) + "/codes", w.elem(is_signed), {w.n, w.k}, {}};
  if (w.k % w.group != 0 || w.group * w.bits % 8 != 0) {  // what fills up groups goes
    std::string packed(static_cast<size_t>(bytes_for(made.elem, w.n * w.k)), '\0');
    for (int64_t i = 0; i < w.n * w.k; ++i) {
      const int64_t k = i % w.k, from = i / w.k * row + k / w.group * group_bytes;
      store_element(made.elem, packed.data(), i,
                    load_element(made.elem, bytes.data() + from, k % w.group));
    }
    bytes = std::move(packed);
  }
  made.data = std::make_shared<const std::string>(std::move(bytes));
  return made;
}

// A constant of the groups of all columns, [groups, n]; the file has it by columns.
MadeConstant turned(const Node& node, const char* what, const NBits& w, ElemType elem,
                    const std::function<double(int64_t column, int64_t group)>& value) {
  MadeConstant made{fmt::format("{}/{}", node.outputs.at(0), what), elem, {w.groups(), w.n}, {}};
  made.values.reserve(static_cast<size_t>(w.groups() * w.n));
  for (int64_t g = 0; g < w.groups(); ++g) {
    for (int64_t n = 0; n < w.n; ++n) made.values.push_back(value(n, g));
  }
  return made;
}

MadeConstant scales_of(const Mapping& m, const Node& node, const NBits& w) {
  const Tensor& scales = constant_of(m, node, 2, "scales");
  const ElemType elem = m.elem(node.inputs[2]);
  if (elem != ElemType::f32 && elem != ElemType::f16 && elem != ElemType::bf16) {
    throw NotMapped(fmt::format("its scales are {}; expected f32, f16 or bf16", to_string(elem)));
  }
  if (scales.count != w.n * w.groups()) {
    throw NotMapped(
        fmt::format("it has {} scales for {} columns of {} groups", scales.count, w.n, w.groups()));
  }
  return turned(node, "scales", w, elem,
                [&](int64_t n, int64_t g) { return scales.at(n * w.groups() + g); });
}

// Zero points as codes, packed by columns, or as floats. Floats that are whole are codes, too.
MadeConstant zeros_of(const Mapping& m, const Node& node, const NBits& w) {
  const Tensor& zeros = constant_of(m, node, 3, "zero points");
  const ElemType codes = w.elem(false);
  if (zeros.type == DataType::Uint8) {
    const int64_t row = (w.groups() * w.bits + 7) / 8;
    const std::string bytes = bytes_of(zeros, w.n * row, "zero points");
    return turned(node, "zeros", w, codes, [&](int64_t n, int64_t g) {
      return load_element(codes, bytes.data() + n * row, g);
    });
  }
  if (zeros.count != w.n * w.groups()) throw NotMapped("it has not a zero point for each scale");
  MadeConstant made = turned(node, "zeros", w, codes,
                             [&](int64_t n, int64_t g) { return zeros.at(n * w.groups() + g); });
  const double most = std::pow(2, static_cast<double>(w.bits)) - 1;
  if (std::ranges::any_of(made.values,
                          [&](double z) { return z != std::floor(z) || z < 0 || z > most; })) {
    if (zeros.type != DataType::Float16) {
      throw NotMapped("its zero points are fractions in f32; expected codes or f16");
    }
    made.elem = ElemType::f16;
  }
  return made;
}

// Rows of another order are those whose scale is not that of their place.
void require_plain_order(const Mapping& m, const Node& node, const NBits& w) {
  if (!node.has_input(4)) return;
  const Tensor& groups = constant_of(m, node, 4, "groups of rows (g_idx)");
  for (int64_t k = 0; k < std::min(groups.count, w.k); ++k) {
    if (groups.whole_at(k) != k / w.group) {
      throw NotMapped("its rows of weights are reordered (g_idx); expected groups of neighbours");
    }
  }
}

Mapped express_nbits(const Mapping& m, const Node& node) {
  const NBits w = form_of(node);
  const Shape& a = m.shape(node, 0);
  if (a.empty() || a.back() != Extent(w.k)) throw NotMapped("its rows and columns do not meet");
  require_plain_order(m, node, w);
  const bool shifted = node.has_input(3);
  Draft d = m.draft("matmul", node);
  d.spec.size("m", m.product(a, 0, a.size() - 1)).number("n", w.n).number("k", w.k);
  d.spec.flag("trans_b");
  m.add_type(&d, m.elem(node.inputs[0]));
  // Level 4 allows products of bytes.
  if (node.integer("accuracy_level", 0) == 4) d.spec.text("a.dtype", "i8");
  d.layer.made = {codes_of(m, node, w, !shifted), scales_of(m, node, w)};
  d.spec.text("w.dtype", to_string(d.layer.made[0].elem)).number("w.group", std::min(w.group, w.k));
  d.spec.text("w.scale", to_string(d.layer.made[1].elem));
  d.layer.operands = {
      {"A", node.inputs[0]}, {"B", d.layer.made[0].name}, {"B.scale", d.layer.made[1].name}};
  if (shifted) {
    d.layer.made.push_back(zeros_of(m, node, w));
    d.spec.text("w.zero", to_string(d.layer.made[2].elem));
    d.layer.operands["B.zero"] = d.layer.made[2].name;
  }
  std::vector<std::string> steps;
  if (node.has_input(5)) {
    d.layer.operands["bias"] = node.inputs[5];
    steps.emplace_back("bias");
  }
  m.fuse(&d, a.size() - 1, steps);
  return {d};
}

// "w.dtype=u4,w.group=16" by key: how the weight is stored, as the spec of a matmul says it.
std::map<std::string, std::string> keys_of(const Node& node) {
  static const std::set<std::string> kKeys = {"a.dtype", "w.dtype", "w.group",
                                              "w.scale", "w.zero",  "w.sparse"};
  std::map<std::string, std::string> keys;
  std::string text = node.text("keys", "");
  for (size_t from = 0; from < text.size();) {
    const size_t to = std::min(text.find(',', from), text.size());
    const std::string pair = text.substr(from, to - from);
    const size_t equal = std::min(pair.find('='), pair.size());
    if (equal == pair.size() || !kKeys.contains(pair.substr(0, equal))) {
      throw NotMapped(fmt::format("its key '{}' says nothing of a weight; expected {}", pair,
                                  fmt::join(kKeys, ", ")));
    }
    keys[pair.substr(0, equal)] = pair.substr(equal + 1);
    from = to + 1;
  }
  return keys;
}

// An input whose bytes are row-major elements of this type and shape, whatever type of ONNX carries them.
MadeConstant stored_constant(const Mapping& m, const Node& node, size_t input, const char* what,
                             const std::string& type, std::vector<int64_t> shape) {
  const Tensor& tensor = constant_of(m, node, input, what);
  const auto elem = parse_elem_type(type);
  if (!elem) throw NotMapped(fmt::format("its {} are of the unknown type '{}'", what, type));
  const int64_t count = shape.at(0) * shape.at(1), bytes = bytes_for(*elem, count);
  if (static_cast<int64_t>(tensor.raw.size()) != bytes) {
    throw NotMapped(fmt::format("its {} are {} bytes; expected {}, {}x{} of {}", what,
                                tensor.raw.size(), bytes, shape[0], shape[1], type));
  }
  return {fmt::format("{}/{}", node.inputs[input], type),
          *elem,
          std::move(shape),
          {},
          std::make_shared<const std::string>(tensor.raw)};
}

// The elements along k that share a scale; -1 for all.
int64_t group_of_keys(const std::map<std::string, std::string>& keys) {
  const auto found = keys.find("w.group");
  if (found == keys.end()) return -1;
  const std::string& text = found->second;
  int64_t group = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), group);
  if (read.ptr != text.data() + text.size() || (group < 1 && group != -1)) {
    throw NotMapped(
        fmt::format("its w.group is '{}'; expected a number of 1 or more, or -1", text));
  }
  return group;
}

// The weight of a node of K and N, as keys and operands of the draft.
void add_stored_parts(Draft* d, const Mapping& m, const Node& node,
                      const std::map<std::string, std::string>& keys, int64_t k, int64_t n) {
  const auto key = [&](const std::string& name, const std::string& usual) {
    const auto found = keys.find(name);
    return found == keys.end() ? usual : found->second;
  };
  const auto add = [&](const std::string& operand, MadeConstant made) {
    d->layer.operands[operand] = made.name;
    d->layer.made.push_back(std::move(made));
  };
  const std::string plain = to_string(m.elem(node.inputs[0]));
  const int64_t group = group_of_keys(keys), groups = group == -1 ? 1 : (k - 1) / group + 1;
  for (const auto& [name, value] : keys) {
    if (name == "w.group") {
      d->spec.number(name, group);
    } else {
      d->spec.text(name, value);
    }
  }
  add("B", stored_constant(m, node, 1, "codes", key("w.dtype", plain), {k, n}));
  if (node.has_input(2)) {
    add("B.scale", stored_constant(m, node, 2, "scales", key("w.scale", "f32"), {groups, n}));
  }
  if (node.has_input(3)) {
    add("B.zero", stored_constant(m, node, 3, "zero points", key("w.zero", "none"), {groups, n}));
  }
}

constexpr int64_t kMostSide = int64_t{1} << 28;  // so that the bits of all elements are a number

// Inputs: A [.., K], codes [K, N], scales and zero points [groups, N], bias [N]; the last three may be left out.
Mapped express_quantized_linear(const Mapping& m, const Node& node) {
  const int64_t n = node.integer("N", 0), k = node.integer("K", 0);
  if (k < 1 || n < 1 || k > kMostSide || n > kMostSide) {
    throw NotMapped(fmt::format("K={}, N={}; expected numbers from 1 to {}", k, n, kMostSide));
  }
  const Shape& a = m.shape(node, 0);
  if (a.empty() || a.back() != Extent(k)) throw NotMapped("its rows and columns do not meet");
  Draft d = m.draft("matmul", node);
  d.spec.size("m", m.product(a, 0, a.size() - 1)).number("n", n).number("k", k);
  m.add_type(&d, m.elem(node.inputs[0]));
  d.layer.operands["A"] = node.inputs[0];
  add_stored_parts(&d, m, node, keys_of(node), k, n);
  std::vector<std::string> steps;
  if (node.has_input(4)) {
    d.layer.operands["bias"] = node.inputs[4];
    steps.emplace_back("bias");
  }
  m.fuse(&d, a.size() - 1, steps);
  return {d};
}

}  // namespace

const MapFns& whole_group_weight_mappings() {
  static const MapFns kMappings = {{"com.microsoft.MatMulNBits", express_nbits},
                                   {"tilewright.QuantizedLinear", express_quantized_linear}};
  return kMappings;
}

}  // namespace tilewright::onnx
