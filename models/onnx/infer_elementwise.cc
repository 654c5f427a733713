// Operators that keep the shape of what they take, or combine shapes.
#include <algorithm>

#include "models/onnx/step.h"

namespace tilewright::onnx {
namespace {

void cast(Step& s) {
  s.set(0, static_cast<DataType>(s.node.integer("to", 0)), s.shape(0), s.input(0).contents);
}

void cast_like(Step& s) { s.set(0, s.type(1), s.shape(0), s.input(0).contents); }

// The element at a place of the combined shape: contents are scalars or of one length.
std::optional<Extent> element(const Shape& contents, size_t i, size_t count) {
  if (contents.size() == 1) return contents[0];
  return contents.size() == count ? std::optional(contents[i]) : std::nullopt;
}

// Numbers of a float type are not rounded.
std::optional<Extent> own_quotient(Step& s, const Extent& a, const Extent& b) {
  auto rounded = s.extents.quotient(a, b);
  const auto elem = elem_type(s.type());
  if (!rounded || (elem && is_integer(*elem))) return rounded;
  return s.extents.times(*rounded, b) == a ? rounded : std::nullopt;
}

std::optional<Extent> combine(Step& s, const Extent& a, const Extent& b) {
  const std::string& op = s.node.op;
  if (op == "Add") return s.extents.plus(a, b);
  if (op == "Sub") return s.extents.minus(a, b);
  if (op == "Mul") return s.extents.times(a, b);
  if (op == "Div") return own_quotient(s, a, b);
  if (op == "Equal") {
    if (a == b) return Extent(1);
    auto x = s.extents.range(a), y = s.extents.range(b);
    if (x && y && (x->max < y->min || y->max < x->min)) return Extent(0);
    return std::nullopt;
  }
  const bool chooses = op == "Max" || op == "Min";
  if (!a.fixed() || !b.fixed()) return chooses && a == b ? std::optional(a) : std::nullopt;
  if (op == "Max") return std::max(a.number(), b.number());
  if (op == "Min") return std::min(a.number(), b.number());
  const bool x = a.number() != 0, y = b.number() != 0;
  if (op == "And") return Extent(x && y ? 1 : 0);
  if (op == "Or") return Extent(x || y ? 1 : 0);
  if (op == "Xor") return Extent(x != y ? 1 : 0);
  if (op == "Less") return Extent(a.number() < b.number() ? 1 : 0);
  if (op == "Greater") return Extent(a.number() > b.number() ? 1 : 0);
  if (op == "LessOrEqual") return Extent(a.number() <= b.number() ? 1 : 0);
  if (op == "GreaterOrEqual") return Extent(a.number() >= b.number() ? 1 : 0);
  if (op == "Mod" && a.number() >= 0 && b.number() > 0) return Extent(a.number() % b.number());
  return std::nullopt;
}

std::optional<Shape> combined_contents(Step& s) {
  const auto &a = s.input(0).contents, &b = s.input(1).contents;
  if (!a || !b || s.node.inputs.size() != 2) return std::nullopt;
  const size_t count = std::max(a->size(), b->size());
  Shape out;
  for (size_t i = 0; i < count; ++i) {
    std::optional<Extent> x = element(*a, i, count), y = element(*b, i, count);
    std::optional<Extent> z = x && y ? combine(s, *x, *y) : std::nullopt;
    if (!z) return std::nullopt;
    out.push_back(*z);
  }
  return out;
}

std::optional<Shape> combined_shape(Step& s) {
  std::optional<Shape> shape = s.shape(0);
  for (size_t i = 1; i < s.node.inputs.size() && shape; ++i) {
    shape = s.shape(i) ? broadcast(*shape, *s.shape(i)) : std::nullopt;
  }
  return shape;
}

void combine(Step& s) { s.set(0, s.type(), combined_shape(s), combined_contents(s)); }

void compare(Step& s) { s.set(0, DataType::Bool, combined_shape(s), combined_contents(s)); }

void negate(Step& s) {
  std::optional<Shape> contents = s.input(0).contents;
  for (size_t i = 0; contents && i < contents->size(); ++i) {
    Extent& e = (*contents)[i];
    if (!e.fixed()) return s.keep();
    e = e.number() == 0 ? 1 : 0;
  }
  s.set(0, s.type(), s.shape(0), contents);
}

void where(Step& s) {
  std::optional<Shape> chosen;
  const auto &condition = s.input(0).contents, &a = s.input(1).contents, &b = s.input(2).contents;
  if (condition && a && b) {
    const size_t count = std::max({condition->size(), a->size(), b->size()});
    chosen.emplace();
    for (size_t i = 0; i < count && chosen; ++i) {
      auto c = element(*condition, i, count), x = element(*a, i, count), y = element(*b, i, count);
      if (!c || !x || !y || !c->fixed()) {
        chosen.reset();
      } else {
        chosen->push_back(c->number() != 0 ? *x : *y);
      }
    }
  }
  s.set(0, s.type(1), combined_shape(s), chosen);
}

// Kept as it is, but with the element type of another input.
void dequantize(Step& s) { s.set(0, s.type(1), s.shape(0)); }

void quantize(Step& s) {
  const auto given = static_cast<DataType>(s.node.integer("output_dtype", 0));
  DataType type = s.node.has_input(2) ? s.type(2) : DataType::Uint8;
  if (given != DataType::Undefined) type = given;
  s.set(0, type, s.shape(0));
}

void qlinear_combine(Step& s) {
  const bool known = s.shape(0) && s.shape(3);
  s.set(0, s.type(7), known ? broadcast(*s.shape(0), *s.shape(3)) : std::nullopt);
}

void qlinear_keep(Step& s) { s.set(0, s.type(4), s.shape(0)); }

// Scale and zero point of the result stand in front of the parts, each with its own behind it.
void qlinear_join(Step& s) {
  if (!s.shape(2)) return;
  Shape out = *s.shape(2);
  const auto axis = axis_of(s.node.integer("axis", 0), out.size());
  for (size_t i = 5; i < s.node.inputs.size() && axis; i += 3) {
    if (!s.shape(i) || s.shape(i)->size() != out.size()) return;
    const auto both = s.extents.plus(out[*axis], (*s.shape(i))[*axis]);
    if (!both) return;
    out[*axis] = *both;
  }
  if (axis) s.set(0, s.type(1), out);
}

void dynamic_quantize(Step& s) {
  s.set(0, DataType::Uint8, s.shape(0));
  s.set(1, DataType::Float, Shape{});
  s.set(2, DataType::Uint8, Shape{});
}

void is_kind(Step& s) { s.set(0, DataType::Bool, s.shape(0)); }

void dropout(Step& s) {
  s.keep();
  s.set(1, DataType::Bool, s.shape(0));
}

Rules make_elementwise_rules() {
  Rules rules = {{"Cast", cast},
                 {"CastLike", cast_like},
                 {"Where", where},
                 {"Not", negate},
                 {"Dropout", dropout},
                 {"IsNaN", is_kind},
                 {"IsInf", is_kind},
                 {"DequantizeLinear", dequantize},
                 {"QuantizeLinear", quantize},
                 {"com.microsoft.DequantizeLinear", dequantize},
                 {"com.microsoft.QuantizeLinear", quantize},
                 {"DynamicQuantizeLinear", dynamic_quantize},
                 {"com.microsoft.QLinearAdd", qlinear_combine},
                 {"com.microsoft.QLinearMul", qlinear_combine},
                 {"com.microsoft.QLinearSoftmax", qlinear_keep},
                 {"com.microsoft.QLinearSigmoid", qlinear_keep},
                 {"com.microsoft.QLinearLeakyRelu", qlinear_keep},
                 {"com.microsoft.QLinearConcat", qlinear_join},
                 {"com.microsoft.BiasGelu", keep},
                 {"com.microsoft.FastGelu", keep},
                 {"com.microsoft.Gelu", keep},
                 {"com.microsoft.QuickGelu", keep}};
  for (const char* op : {"SwiGLU", "TensorScatter"}) rules[op] = keep;
  for (const char* op : {"Relu",
                         "Gelu",
                         "Sigmoid",
                         "Tanh",
                         "Erf",
                         "Exp",
                         "Log",
                         "Sqrt",
                         "Abs",
                         "Neg",
                         "Reciprocal",
                         "Clip",
                         "LeakyRelu",
                         "Elu",
                         "Selu",
                         "Celu",
                         "HardSwish",
                         "HardSigmoid",
                         "Softplus",
                         "Softsign",
                         "Mish",
                         "Swish",
                         "Floor",
                         "Ceil",
                         "Round",
                         "Sign",
                         "Sin",
                         "Cos",
                         "Tan",
                         "ThresholdedRelu",
                         "PRelu",
                         "BitwiseNot",
                         "CumSum",
                         "Trilu",
                         "BatchNormalization",
                         "InstanceNormalization",
                         "GroupNormalization",
                         "LpNormalization",
                         "LRN",
                         "Hardmax",
                         "Acos",
                         "Acosh",
                         "Asin",
                         "Asinh",
                         "Atan",
                         "Atanh",
                         "Sinh",
                         "Cosh",
                         "Shrink",
                         "CumProd",
                         "MeanVarianceNormalization",
                         "ReverseSequence",
                         "Scatter",
                         "ScatterElements",
                         "ScatterND"}) {
    rules[op] = keep;
  }
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Mean", "Sum", "Mod",
                         "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor"}) {
    rules[op] = combine;
  }
  for (const char* op :
       {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor"}) {
    rules[op] = compare;
  }
  return rules;
}

}  // namespace

const Rules& elementwise_rules() {
  static const Rules kRules = make_elementwise_rules();
  return kRules;
}

}  // namespace tilewright::onnx
