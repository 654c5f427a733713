#include "models/onnx/whole/codes.h"

#include <fmt/format.h>

#include <algorithm>

namespace tilewright::onnx {
namespace {

// `zero`, or "" where all zero points are known to be 0.
std::string nonzero(const Mapping& m, const std::string& zero) {
  const auto known = known_elements(m, zero);
  const bool none = known && std::ranges::all_of(*known, [](double z) { return z == 0; });
  return none ? "" : zero;
}

}  // namespace

Codes codes_at(const Mapping& m, const Node& node, size_t value, size_t zero) {
  return {node.inputs.at(value), node.has_input(zero) ? nonzero(m, node.inputs[zero]) : ""};
}

std::string parameter_at(IndexExpr& e, const Mapping& m, const std::string& value,
                         const std::string& index) {
  const Sizes sizes = sizes_of_value(m, value);
  const bool one = std::ranges::all_of(sizes, [](int64_t size) { return size == 1; });
  if (!one && sizes.size() > 1) throw NotMapped("its scales or zero points have several axes");
  return e.at(value, std::vector<std::string>(sizes.size(), one ? "0" : index));
}

std::optional<std::vector<double>> known_elements(const Mapping& m, const std::string& value) {
  const Value& v = m.graph.value(value);
  if (const auto number = v.scalar()) return std::vector<double>{*number};
  if (v.tensor == nullptr || !v.tensor->readable()) return std::nullopt;
  std::vector<double> all;
  for (int64_t i = 0; i < v.tensor->count; ++i) all.push_back(v.tensor->at(i));
  return all;
}

std::string within_limits(ElemType type, const std::string& x) {
  if (type == ElemType::u8) return fmt::format("max(min({}, 255), 0)", x);
  if (type == ElemType::i8) return fmt::format("max(min({}, 127), (-128))", x);
  throw NotMapped(fmt::format("its results are {}; expected u8 or i8", to_string(type)));
}

std::string code_of(IndexExpr& e, const Mapping& m, const Node& node, const std::string& real,
                    size_t scale, size_t zero, const std::string& index) {
  const auto own = known_elements(m, node.inputs.at(scale));
  std::string code =
      own && *own == std::vector<double>{1}
          ? fmt::format("round({})", real)
          : fmt::format("round({} / {})", real, parameter_at(e, m, node.inputs[scale], index));
  if (const Codes c = codes_at(m, node, scale, zero); !c.zero.empty()) {
    code += " + " + parameter_at(e, m, c.zero, index);
  }
  return within_limits(m.elem(node.outputs.at(0)), code);
}

std::string real_of(IndexExpr& e, const Mapping& m, const Node& node, size_t input,
                    const std::string& code) {
  const Codes c = codes_at(m, node, input, input + 2);
  const std::string scale = parameter_at(e, m, node.inputs.at(input + 1), "0");
  if (c.zero.empty()) return fmt::format("{} * {}", code, scale);
  return fmt::format("({} - {}) * {}", code, parameter_at(e, m, c.zero, "0"), scale);
}

}  // namespace tilewright::onnx
