// Codes of quantized values, their scales and their zero points.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/onnx/mapping.h"
#include "models/onnx/whole/index_expr.h"

namespace tilewright::onnx {

// Codes, and their zero point; "" for one that is known to be 0.
struct Codes {
  std::string value, zero;
  bool turned = false;  // the last two axes are exchanged
};

// Codes among the inputs of a node. The zero point may be left out.
Codes codes_at(const Mapping& m, const Node& node, size_t value, size_t zero);
// A scale or a zero point: one for all, or one for each place along an axis.
std::string parameter_at(IndexExpr& e, const Mapping& m, const std::string& value,
                         const std::string& index);
// The elements of a constant of the model; nothing for a calculated one.
std::optional<std::vector<double>> known_elements(const Mapping& m, const std::string& value);
// "max(min(x, 255), 0)" for u8. Throws NotMapped for other types than u8 and i8.
std::string within_limits(ElemType type, const std::string& x);
// The codes of reals: "round(x * 4) + 128", within the limits of their type. `scale` and `zero` are inputs of the
// node.
std::string code_of(IndexExpr& e, const Mapping& m, const Node& node, const std::string& real,
                    size_t scale, size_t zero, const std::string& index);
// The reals of codes: "(x - 128) * 0.5". Scale and zero point stand behind the codes among the inputs.
std::string real_of(IndexExpr& e, const Mapping& m, const Node& node, size_t input,
                    const std::string& code);

}  // namespace tilewright::onnx
