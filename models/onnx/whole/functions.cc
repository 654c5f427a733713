// Expressions of whole models: powers, quotients of floats, circular and hyperbolic functions.
#include <fmt/format.h>

#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"

namespace tilewright::onnx {
namespace {

// The statements that leave the arc tangent of `x` in the tensor A: places beyond tan(3 pi / 8) and tan(pi / 8) are
// turned back by a quarter and an eighth of the circle, and the rest has a short series (S. Moshier, Cephes).
std::string arc_tangent(const IndexExpr& e, const std::string& x) {
  const std::string size = e.left("M"), rest = e.left("T"), square = e.left("Q");
  const std::string series = fmt::format(
      "((({0} * 8.05374449538e-2 - 1.38776856032e-1) * {0} + 1.99777106478e-1) * {0} - "
      "3.33329491539e-1) * {0} * {1} + {1}",
      square, rest);
  return fmt::format(
      "{0} = abs({1}); {2} = select({0} > 2.414213562373095, -1 / {0}, select({0} > "
      "0.4142135623730950, ({0} - 1) / ({0} + 1), {0})); {3} = {2} * {2}; {4} = select({1} < 0, "
      "-1, 1) * (select({0} > 2.414213562373095, 1.5707963267948966, select({0} > "
      "0.4142135623730950, 0.7853981633974483, 0)) + {5})",
      size, x, rest, square, e.left("A"), series);
}

Mapped express_arc(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const std::string x = e.element(node.inputs.at(0)), a = e.left("A");
  // asin x = atan(x / sqrt(1 - x^2)), which is infinite at the ends.
  const bool tangent = node.op == "Atan";
  const std::string of = tangent ? x : fmt::format("({0} / sqrt(1 - {0} * {0}))", x);
  const std::string value = node.op == "Acos" ? "1.5707963267948966 - " + a : a;
  return {e.finish(fmt::format("{}; {} = {}", arc_tangent(e, of), e.left(), value))};
}

// With a sign for odd powers of what is below 0. Powers of 0 have no logarithm.
Mapped express_calculated_power(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const std::string x = e.element(node.inputs.at(0)), y = e.element(node.inputs.at(1));
  const bool whole = !is_float(m.elem(node.inputs[0]));
  if (whole) e.accumulate(ElemType::f64);
  const std::string odd = fmt::format("{0} - 2 * floor({0} / 2) == 1", y);
  const std::string size = fmt::format("exp({} * log(abs({})))", y, x);
  const std::string value = fmt::format(
      "select({0} == 0, 1, select({1} == 0, select({0} > 0, 0, 1 / abs({1})), "
      "select({1} < 0 && {2}, -{3}, {3})))",
      y, x, odd, size);
  return {e.finish(fmt::format("{} = {}({})", e.left(), whole ? "round" : "", value))};
}

}  // namespace

std::string hyperbolic_text(const std::string& op) {
  if (op == "Sinh") return "0.5 * (exp($) - exp(-$))";
  if (op == "Cosh") return "0.5 * (exp($) + exp(-$))";
  if (op == "Asinh") return "select($ < 0, -1, 1) * log(abs($) + sqrt($ * $ + 1))";
  if (op == "Acosh") return "log($ + sqrt($ * $ - 1))";
  if (op == "Atanh") return "0.5 * log((1 + $) / (1 - $))";
  return "";
}

Mapped calculated_power(const Mapping& m, const Node& node) {
  return express_calculated_power(m, node);
}

const MapFns& whole_function_mappings() {
  static const MapFns kMappings = {
      {"Atan", express_arc}, {"Asin", express_arc}, {"Acos", express_arc}};
  return kMappings;
}

}  // namespace tilewright::onnx
