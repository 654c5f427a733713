// Expressions of whole models: functions of elements.
#include "models/onnx/whole/whole.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "models/onnx/whole/codes.h"
#include "models/onnx/whole/index_expr.h"

namespace tilewright::onnx {
namespace {

// `text` with `x` for each '$'.
std::string filled(const std::string& text, const std::string& x) {
  std::string out;
  for (char c : text) {
    if (c == '$') {
      out += x;
    } else {
      out += c;
    }
  }
  return out;
}

std::string alpha_of(const Node& node, double fallback) {
  return literal(node.real("alpha", fallback));
}

// A function of one element as text; "" for none of these.
std::string unary_text(const Node& node) {
  static const std::map<std::string, std::string> kTexts = {
      {"Relu", "max($, 0)"},
      {"Sigmoid", "1 / (1 + exp(-$))"},
      {"Tanh", "tanh($)"},
      {"Erf", "erf($)"},
      {"Exp", "exp($)"},
      {"Log", "log($)"},
      {"Sqrt", "sqrt($)"},
      {"Abs", "abs($)"},
      {"Neg", "-$"},
      {"Floor", "floor($)"},
      {"Ceil", "-floor(-$)"},
      {"Round", "round($)"},
      {"Reciprocal", "1 / $"},
      {"HardSwish", "$ * max(min($ / 6 + 0.5, 1), 0)"},
      {"Softplus", "log(1 + exp($))"},
      {"Softsign", "$ / (1 + abs($))"},
      {"Sign", "select($ > 0, 1, 0) - select($ < 0, 1, 0)"},
      {"Not", "select($ == 0, 1, 0)"},
      {"IsNaN", "select($ >= 0 || $ < 0, 0, 1)"},
      {"Mish", "$ * tanh(log(1 + exp($)))"},
      {"com.microsoft.Gelu", "$ * 0.5 * (1 + erf($ * 0.7071067811865476))"}};
  auto it = kTexts.find(node.full_op());
  if (it != kTexts.end()) return it->second;
  const std::string& op = node.op;
  if (std::string text = hyperbolic_text(op); !text.empty()) return text;
  if (op == "LeakyRelu") return fmt::format("select($ > 0, $, $ * {})", alpha_of(node, 0.01));
  if (op == "Elu") return fmt::format("select($ > 0, $, {} * (exp($) - 1))", alpha_of(node, 1));
  if (op == "Celu") {
    const double alpha = node.real("alpha", 1);
    return fmt::format("max($, 0) + min({} * (exp($ * {}) - 1), 0)", literal(alpha),
                       literal(1 / alpha));
  }
  if (op == "Selu") {
    return fmt::format("{} * select($ > 0, $, {} * (exp($) - 1))",
                       literal(node.real("gamma", 1.05070102214813232421875)),
                       alpha_of(node, 1.67326319217681884765625));
  }
  if (op == "Shrink") {
    const std::string edge = literal(node.real("lambd", 0.5)), bias = literal(node.real("bias", 0));
    return fmt::format("select($ > {0}, $ - {1}, select($ < -{0}, $ + {1}, 0))", edge, bias);
  }
  if (op == "IsInf") {
    const std::string most = "3.4028234663852886e+38";
    std::vector<std::string> tests;
    if (node.integer("detect_positive", 1) != 0) tests.push_back("$ > " + most);
    if (node.integer("detect_negative", 1) != 0) tests.push_back("-$ > " + most);
    return tests.empty() ? "$ * 0" : fmt::format("select({}, 1, 0)", fmt::join(tests, " || "));
  }
  if (op == "ThresholdedRelu") return fmt::format("select($ > {}, $, 0)", alpha_of(node, 1));
  if (op == "Swish") return fmt::format("$ / (1 + exp(-($ * {})))", alpha_of(node, 1));
  if (op == "QuickGelu") return fmt::format("$ / (1 + exp(-($ * {})))", alpha_of(node, 1.702));
  if (op == "HardSigmoid") {
    return fmt::format("max(min($ * {} + {}, 1), 0)", alpha_of(node, 0.2),
                       literal(node.real("beta", 0.5)));
  }
  if (op == "Gelu") {
    return node.text("approximate", "none") == "tanh"
               ? "$ * 0.5 * (1 + tanh($ * (0.7978845608028654 + 0.035677408136300125 * $ * $)))"
               : "$ * 0.5 * (1 + erf($ * 0.7071067811865476))";
  }
  return "";
}

Mapped express_unary(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const std::string x = e.element(node.inputs.at(0));
  return {e.finish(fmt::format("{} = {}", e.left(), filled(unary_text(node), x)))};
}

std::string combined(const std::string& op, const std::string& a, const std::string& b) {
  static const std::map<std::string, std::string> kSigns = {
      {"Add", "+"}, {"Sum", "+"}, {"Mean", "+"}, {"Sub", "-"}, {"Mul", "*"}, {"Div", "/"}};
  static const std::map<std::string, std::string> kTests = {{"Equal", "=="},
                                                            {"Less", "<"},
                                                            {"Greater", ">"},
                                                            {"LessOrEqual", "<="},
                                                            {"GreaterOrEqual", ">="}};
  if (auto sign = kSigns.find(op); sign != kSigns.end()) {
    return fmt::format("{} {} {}", a, sign->second, b);
  }
  if (auto test = kTests.find(op); test != kTests.end()) {
    return fmt::format("select({} {} {}, 1, 0)", a, test->second, b);
  }
  if (op == "And") return fmt::format("select({} != 0 && {} != 0, 1, 0)", a, b);
  if (op == "Or") return fmt::format("select({} != 0 || {} != 0, 1, 0)", a, b);
  if (op == "Xor") return fmt::format("select({} != {}, 1, 0)", a, b);
  return fmt::format("{}({}, {})", op == "Max" ? "max" : "min", a, b);
}

// The quotient of numbers, toward zero, and the rest of rounding it down or toward zero: in f64, which is exact
// for operands below 2^52.
Mapped express_quotient(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  e.accumulate(ElemType::f64);
  const std::string a = e.element(node.inputs[0]), b = e.element(node.inputs.at(1));
  const std::string q = e.left("Q"), down = fmt::format("floor({})", q);
  const std::string zero = fmt::format("select({0} < 0, -floor(-{0}), floor({0}))", q);
  const bool toward_zero = node.op == "Div" || node.integer("fmod", 0) != 0;
  const std::string whole = toward_zero ? zero : down;
  if (!toward_zero && is_float(m.elem(node.inputs[0]))) {
    // A number less than an infinite divisor stays, or becomes the divisor where their signs differ.
    const auto finite = [](const std::string& x) {
      return fmt::format("abs({}) <= 1.7976931348623157e308", x);
    };
    const std::string same = fmt::format("{0} >= 0 && {1} > 0 || {0} <= 0 && {1} < 0", a, b);
    return {e.finish(
        fmt::format("{0} = {1} / {2}; {3} = select({4} || {2} == 0 || {5}, {1} - {2} * floor({0}), "
                    "select({6}, {1}, {2}))",
                    q, a, b, e.left(), finite(b),
                    fmt::format("!({} && ({} > 0 || {} < 0))", finite(a), b, b), same))};
  }
  return {
      e.finish(fmt::format("{} = {} / {}; {} = {}", q, a, b, e.left(),
                           node.op == "Div" ? whole : fmt::format("{} - {} * {}", a, b, whole)))};
}

Mapped express_combination(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  std::string text = e.element(node.inputs.at(0));
  if (node.op == "Div" && !is_float(m.elem(node.inputs[0]))) return express_quotient(m, node);
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    text = combined(node.op, text, e.element(node.inputs[i]));
  }
  if (node.op == "Mean") text = fmt::format("({}) / {}", text, node.inputs.size());
  return {e.finish(fmt::format("{} = {}", e.left(), text))};
}

constexpr double kLongestPower = 16;  // that is written as products

Mapped express_power(const Mapping& m, const Node& node) {
  static const std::map<double, std::string> kTexts = {
      {1, "$"},         {2, "$ * $"},       {3, "$ * $ * $"}, {4, "$ * $ * $ * $"},
      {0.5, "sqrt($)"}, {-0.5, "rsqrt($)"}, {-1, "1 / $"},    {-2, "1 / ($ * $)"}};
  auto power = m.input(node, 1).scalar();
  if (!power || !is_float(m.elem(node.inputs[0]))) return calculated_power(m, node);
  IndexExpr e(m, node);
  const std::string x = e.element(node.inputs[0]);
  const auto found = kTexts.find(*power);
  // Not a number below 0, as powers of a fraction are.
  std::string text = fmt::format("exp({} * log($))", literal(*power));
  if (found != kTexts.end()) text = found->second;
  if (found == kTexts.end() && *power == std::floor(*power)) {
    if (std::abs(*power) > kLongestPower) return calculated_power(m, node);
    text = "$";
    for (int n = 1; n < std::abs(*power); ++n) text += " * $";
    if (*power <= 0) text = *power == 0 ? "$ * 0 + 1" : fmt::format("1 / ({})", text);
  }
  return {e.finish(fmt::format("{} = {}", e.left(), filled(text, x)))};
}

Mapped express_limits(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  std::string text = e.element(node.inputs.at(0));
  const char* names[] = {"min", "max"};
  for (size_t i = 0; i < 2; ++i) {
    std::string bound;
    if (const Attribute* own = node.find(names[i])) bound = literal(own->f);
    if (node.has_input(i + 1)) bound = e.element(node.inputs[i + 1]);
    if (!bound.empty()) text = fmt::format("{}({}, {})", names[1 - i], text, bound);
  }
  return {e.finish(fmt::format("{} = {}", e.left(), text))};
}

Mapped express_choice(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const std::string condition = e.element(node.inputs.at(0));
  const std::string yes = e.element(node.inputs.at(1)), no = e.element(node.inputs.at(2));
  return {e.finish(fmt::format("{} = select({} != 0, {}, {})", e.left(), condition, yes, no))};
}

Mapped express_slopes(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const std::string x = e.element(node.inputs.at(0)), slope = e.element(node.inputs.at(1));
  return {e.finish(fmt::format("{} = select({} > 0, {}, {} * {})", e.left(), x, x, x, slope))};
}

Mapped express_conversion(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const std::string& input = node.inputs.at(0);
  const std::string x = e.element(input);
  const bool from_real = is_float(m.elem(input)), to_real = is_float(m.elem(node.outputs[0]));
  std::string text = x;
  if (m.graph.value(node.outputs[0]).type == DataType::Bool) {
    text = fmt::format("select({} != 0, 1, 0)", x);
  } else if (from_real && !to_real) {
    text = fmt::format("select({} < 0, -floor(-{}), floor({}))", x, x, x);  // toward zero
  }
  return {e.finish(fmt::format("{} = {}", e.left(), text))};
}

// The sum x - x^3 / 3! + x^5 / 5! - … up to this power.
std::string sine_terms(const std::string& x, int power) {
  double factor = 1;
  std::string square = fmt::format("{} * {}", x, x), text;
  std::vector<double> factors;
  for (int p = 1; p <= power; p += 2) {
    if (p > 1) factor /= -static_cast<double>(p - 1) * p;
    factors.push_back(factor);
  }
  text = literal(factors.back());
  for (size_t i = factors.size() - 1; i-- > 0;) {
    text = fmt::format("({} + {} * ({}))", literal(factors[i]), square, text);
  }
  return fmt::format("{} * {}", x, text);
}

// By the nearest multiple of pi, or of pi and a half for the cosine, and the rest's series. Pi is subtracted in
// parts of few bits, whose products with that multiple are exact (Cody and Waite, "Software Manual for the
// Elementary Functions", 1980). The places are exact up to 2^13 multiples.
Mapped express_sine(const Mapping& m, const Node& node) {
  constexpr double kParts[] = {3.140625, 0.0009670257568359375, 6.2771141529083252e-7,
                               1.2154201256553420e-10};
  IndexExpr e(m, node);
  const std::string x = e.element(node.inputs.at(0)), n = e.left("N"), r = e.left("R");
  const bool cosine = node.op == "Cos", tangent = node.op == "Tan";
  const int power = m.elem(node.inputs[0]) == ElemType::f64 ? 21 : 13;
  const std::string places = cosine ? fmt::format("({} + 0.5)", n) : n;
  std::string rest = x;
  for (double part : kParts) rest += fmt::format(" - {} * {}", places, literal(part));
  const std::string odd = fmt::format("({0} - 2 * floor({0} * 0.5))", n);
  if (tangent) {
    const std::string c = e.left("C");
    return {e.finish(
        fmt::format("{} = round({} * 0.3183098861837907); {} = {}; {} = 1.5707963267948966 - "
                    "abs({}); {} = {} / ({})",
                    n, x, r, rest, c, r, e.left(), sine_terms(r, power), sine_terms(c, power)))};
  }
  return {e.finish(
      fmt::format("{} = {}({} * 0.3183098861837907); {} = {}; {} = {} * ({})", n,
                  cosine ? "floor" : "round", x, r, rest, e.left(),
                  cosine ? fmt::format("(2 * {} - 1)", odd) : fmt::format("(1 - 2 * {})", odd),
                  sine_terms(r, power)))};
}

// (X - zero) * scale, the two for all, by an axis or by blocks along one. Constants of fewer than 8 bits are
// calculated from bytes.
Mapped express_dequantization(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const int64_t block = node.integer("block_size", 0);
  const auto element = [&](const std::string& value, const std::vector<std::string>& at) {
    const Value& known = m.graph.value(value);
    const auto elem = elem_type(known.type);
    if (!elem || bits_of(*elem) >= 8 || *elem == ElemType::boolean) return e.at(value, at);
    const auto codes = known_elements(m, value);
    if (!codes)
      throw NotMapped(fmt::format("'{}' has {} bits and is calculated", value, bits_of(*elem)));
    return e.constant(value, ElemType::i8, sizes_of_value(m, value), *codes, at);
  };
  auto parameter = [&](const std::string& value) {
    if (m.graph.value(value).scalar() || m.shape(value).empty()) return element(value, {});
    const size_t axis = checked_axis(node.integer("axis", 1), e.sizes().size());
    if (block == 0) return element(value, {e.indices()[axis]});
    std::vector<std::string> at = e.indices();
    at[axis] = fmt::format("{} // {}", at[axis], block);
    return element(value, at);
  };
  std::string text = element(node.inputs[0], e.indices());
  if (node.has_input(2)) text = fmt::format("({} - {})", text, parameter(node.inputs[2]));
  return {e.finish(fmt::format("{} = {} * {}", e.left(), text, parameter(node.inputs.at(1))))};
}

Mapped express_gate(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const std::string a = e.element(node.inputs.at(0)), b = e.element(node.inputs.at(1));
  return {e.finish(
      fmt::format("{0} = {1} / (1 + exp(-({1} * {2}))) * {3}", e.left(), a, alpha_of(node, 1), b))};
}

}  // namespace

const MapFns& whole_element_mappings() {
  static const MapFns kMappings = [] {
    MapFns mappings = {{"Pow", express_power},
                       {"Clip", express_limits},
                       {"Where", express_choice},
                       {"PRelu", express_slopes},
                       {"Mod", express_quotient},
                       {"SwiGLU", express_gate},
                       {"Tan", express_sine},
                       {"Sin", express_sine},
                       {"Cos", express_sine},
                       {"Cast", express_conversion},
                       {"CastLike", express_conversion},
                       {"DequantizeLinear", express_dequantization},
                       {"com.microsoft.DequantizeLinear", express_dequantization},
                       {"com.microsoft.Gelu", express_unary},
                       {"com.microsoft.QuickGelu", express_unary}};
    for (const char* op :
         {"Relu",       "Sigmoid",  "Tanh",      "Erf",         "Exp",   "Log",
          "Sqrt",       "Abs",      "Neg",       "Floor",       "Ceil",  "Round",
          "Reciprocal", "Softplus", "HardSwish", "HardSigmoid", "Sign",  "Not",
          "LeakyRelu",  "Elu",      "Softsign",  "Swish",       "Gelu",  "ThresholdedRelu",
          "Celu",       "Selu",     "Shrink",    "IsNaN",       "IsInf", "Mish",
          "Sinh",       "Cosh",     "Asinh",     "Acosh",       "Atanh"}) {
      mappings[op] = express_unary;
    }
    for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "Equal", "Less",
                           "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Xor"}) {
      mappings[op] = express_combination;
    }
    return mappings;
  }();
  return kMappings;
}

bool prefers_expression(const Mapping& m, const Node& node) {
  if (node.op == "Gather") return m.elem(node.inputs.at(1)) != ElemType::i32;
  return whole_element_mappings().contains(node.full_op());
}

}  // namespace tilewright::onnx
