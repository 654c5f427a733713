#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>

#include "ir/buffer.h"
#include "ir/ops/builders.h"
#include "ir/ops/dim_name.h"
#include "ir/ops/expr/expr_analysis.h"
#include "ir/ops/expr/expr_bounds.h"
#include "ir/ops/keys.h"
#include "ir/ops/source.h"
#include "ir/ops/workload_builder.h"

namespace tilewright::ops {
namespace {

// Turns checked statements into stages.
class ExprBuilder {
 public:
  explicit ExprBuilder(const Spec& spec) : analysis_(analyze_expr(spec)), spec_(spec), b_(spec) {}

  Workload build() {
    for (const auto& [name, size] : analysis_.dims) extents_[name] = b_.dim(name, size);
    for (const TensorInfo& t : analysis_.tensors) {
      if (t.written_by < 0) add_input(t);
    }
    for (size_t i = 0; i < analysis_.statements.size(); ++i) add_stage(i);
    return b_.finish();
  }

 private:
  using Scope = std::map<std::string, Expr>;

  void add_input(const TensorInfo& t);
  Expr extent_of(const InferredExtent& e) const;
  void add_stage(size_t number);
  Axis axis(const std::string& name) const { return {name, extents_.at(name)}; }

  Expr index(const Syntax& s, const Scope& scope) const;
  Expr value(const Syntax& s, const Scope& scope) const;
  Expr binary_value(const Syntax& s, const Scope& scope) const;
  Expr call_value(const Syntax& s, const Scope& scope) const;
  Expr number(const Syntax& s) const;
  Expr read(const Syntax& s, const Scope& scope) const;
  Expr cond(const Syntax& s, const Scope& scope) const;
  bool is_whole(const Syntax& s, ElemType type) const;
  bool is_of(const Syntax& s, ElemType type) const;
  ElemType computed_in(const Statement& s, ElemType type) const;

  ExprAnalysis analysis_;
  const Spec& spec_;
  WorkloadBuilder b_;
  std::map<std::string, Expr> extents_;
  std::map<std::string, Buffer> buffers_;
  ElemType acc_ = ElemType::f32;  // in which the statement at hand is computed
};

// The type of a tensor when `dtypes` does not give one.
std::string default_type(const ExprAnalysis& analysis, const TensorInfo& t, const Spec& spec) {
  if (t.written_by < 0) return t.used_as_index ? "i32" : spec.get<std::string>("dtype");
  bool last = t.written_by + 1 == static_cast<int>(analysis.statements.size());
  return spec.get<std::string>(last ? "out" : "acc");
}

ElemType type_of(const ExprAnalysis& analysis, const TensorInfo& t, const Spec& spec) {
  std::string key = "dtypes." + t.name;
  std::string name = spec.has(key) ? spec.get<std::string>(key) : default_type(analysis, t, spec);
  return *parse_elem_type(name);
}

Expr ExprBuilder::extent_of(const InferredExtent& e) const {
  if (!e.dynamic) return e.extent;
  // The largest value of an affine index, plus one. Terms with a negative coefficient are largest
  // at 0.
  Linear l = *linear_form(*e.dynamic);
  int64_t constant = l.constant + 1;
  Expr sum = 0;
  for (const auto& [name, coefficient] : l.terms) {
    if (coefficient <= 0) continue;
    Expr term = times(minus(extents_.at(name), 1), coefficient);
    if (auto fixed = as_int(term)) {
      constant += *fixed;
    } else {
      sum = plus(sum, term);
    }
  }
  sum = plus(sum, constant);
  // A plain index i gives its dimension itself, not (n - 1) + 1.
  bool plain = l.constant == 0 && l.terms.size() == 1 && l.terms.begin()->second == 1;
  return plain ? extents_.at(l.terms.begin()->first) : sum;
}

void ExprBuilder::add_input(const TensorInfo& t) {
  std::vector<Expr> shape;
  for (size_t d = 0; d < t.inferred.size(); ++d) {
    const InferredExtent& e = *t.inferred[d];
    shape.push_back(e.own ? b_.dim(dim_name("shapes." + t.name, d), *e.own) : extent_of(e));
  }
  const auto& weights = spec_.get<std::vector<std::string>>("weights");
  bool weight = std::count(weights.begin(), weights.end(), t.name) > 0;
  buffers_[t.name] = b_.input(t.name, type_of(analysis_, t, spec_), shape,
                              weight ? ParamRole::Weight : ParamRole::Input);
}

Reducer reducer_of(const Statement& s) {
  if (s.assignment == "+=") return Reducer::Sum;
  if (s.assignment == "max=") return Reducer::Max;
  return s.assignment == "min=" ? Reducer::Min : Reducer::None;
}

void ExprBuilder::add_stage(size_t number) {
  const Statement& s = analysis_.statements[number];
  std::vector<Axis> axes, reduce_axes;
  for (const Syntax& index : s.indices) axes.push_back(axis(index.text));
  for (const std::string& name : analysis_.reduce_indices[number])
    reduce_axes.push_back(axis(name));
  auto compute = [&](const Point& p, const Point& r) {
    Scope scope;
    for (size_t d = 0; d < axes.size(); ++d) scope[axes[d].name] = p[d];
    for (size_t d = 0; d < reduce_axes.size(); ++d) scope[reduce_axes[d].name] = r[d];
    return value(s.value, scope);
  };
  ElemType type = type_of(analysis_, *analysis_.find(s.target), spec_);
  acc_ = computed_in(s, type);
  const bool reduces = !reduce_axes.empty();
  const bool direct = !reduces || type == acc_;
  std::string first = s.target;
  while (!direct && (first == s.target || analysis_.find(first) != nullptr)) first += "_acc";
  Reducer reducer = reduces ? reducer_of(s) : Reducer::None;
  Buffer buffer = b_.reduce(first, direct ? type : acc_, axes, reduce_axes, reducer, compute);
  if (!direct)
    buffer = b_.compute(s.target, type, axes, [&](const Point& p) { return load(buffer, p); });
  buffers_[s.target] = buffer;
}

// Whether it is a whole number that the type holds.
bool is_number_of(const Syntax& s, ElemType type) {
  if (s.kind != Syntax::Kind::Number) return false;
  if (s.text.find_first_not_of("0123456789") != std::string::npos) return false;
  const double number = std::strtod(s.text.c_str(), nullptr);
  return number < 0x1p53 && round_to(type, number) == number;
}

// Whether integers alone give the value: elements, and sums, differences and products of them.
bool ExprBuilder::is_whole(const Syntax& s, ElemType type) const {
  switch (s.kind) {
    case Syntax::Kind::Number: return is_number_of(s, type);
    case Syntax::Kind::Read: return is_integer(buffers_.at(s.text)->elem);
    case Syntax::Kind::Negate: return is_whole(s.args[0], type);
    case Syntax::Kind::Binary:
      return (s.text == "+" || s.text == "-" || s.text == "*") &&
             std::ranges::all_of(s.args, [&](const Syntax& arg) { return is_whole(arg, type); });
    default: return false;
  }
}

bool reads_elements(const Syntax& s) {
  return s.kind == Syntax::Kind::Read || std::ranges::any_of(s.args, reads_elements);
}

// Whether the value is an element or a number of the type, perhaps one that indices choose: elements are compared
// in the accumulator's type.
bool ExprBuilder::is_of(const Syntax& s, ElemType type) const {
  if (s.kind == Syntax::Kind::Read) return buffers_.at(s.text)->elem == type;
  if (s.kind == Syntax::Kind::Number) return is_number_of(s, type);
  return s.kind == Syntax::Kind::Call && s.text == "select" && !reads_elements(s.args[0]) &&
         is_of(s.args[1], type) && is_of(s.args[2], type);
}

// The accumulator's type. Where that is a float, sums of integers that are stored in 32 or 64 bits are computed
// in those, and integers that are only chosen in their own type: exactly.
ElemType ExprBuilder::computed_in(const Statement& s, ElemType type) const {
  if (!is_float(b_.acc) || !is_integer(type)) return b_.acc;
  const bool wide = type == ElemType::i32 || type == ElemType::i64;
  const bool chosen = s.assignment != "+=" && is_of(s.value, type);
  return chosen || (wide && is_whole(s.value, type)) ? type : b_.acc;
}

Expr ExprBuilder::index(const Syntax& s, const Scope& scope) const {
  switch (s.kind) {
    case Syntax::Kind::Name: return scope.at(s.text);
    case Syntax::Kind::Number: return linear_form(s)->constant;
    case Syntax::Kind::Negate: return minus(0, index(s.args[0], scope));
    case Syntax::Kind::Read: return cast(ElemType::index, read(s, scope));
    default: break;
  }
  Expr a = index(s.args[0], scope), b = index(s.args[1], scope);
  if (s.text == "+") return plus(a, b);
  if (s.text == "-") return minus(a, b);
  if (s.text == "*") return as_int(a) ? times(b, *as_int(a)) : times(a, *as_int(b));
  return s.text == "//" ? quotient(a, *as_int(b)) : floormod(a, b);
}

// An index that is read from another tensor is clamped to the range, as in gather.
Expr ExprBuilder::read(const Syntax& s, const Scope& scope) const {
  const Buffer& buffer = buffers_.at(s.text);
  std::vector<Expr> indices;
  for (size_t d = 0; d < s.args.size(); ++d) {
    Expr i = index(s.args[d], scope);
    bool known = is_index_arithmetic(s.args[d]);
    indices.push_back(known ? i : max(min(i, minus(buffer->shape[d], 1)), Expr(0)));
  }
  return load(buffer, indices);
}

Expr ExprBuilder::number(const Syntax& s) const {
  double number = 0;
  std::from_chars(s.text.data(), s.text.data() + s.text.size(), number);
  if (is_float(acc_)) return make_float(acc_, number);
  bool whole = number == std::floor(number) && number < 0x1p53;
  if (!whole || round_to(acc_, number) != number) {
    fail(s, fmt::format("'{}' is no value of {}, in which the expression is computed", s.text,
                        to_string(acc_)));
  }
  return make_int(acc_, static_cast<int64_t>(number));
}

Expr ExprBuilder::value(const Syntax& s, const Scope& scope) const {
  switch (s.kind) {
    case Syntax::Kind::Number: return number(s);
    case Syntax::Kind::Name: return cast(acc_, scope.at(s.text));
    case Syntax::Kind::Read: return cast(acc_, read(s, scope));
    case Syntax::Kind::Negate: return -value(s.args[0], scope);
    case Syntax::Kind::Binary: return binary_value(s, scope);
    default: return call_value(s, scope);
  }
}

Expr ExprBuilder::binary_value(const Syntax& s, const Scope& scope) const {
  if (s.text == "//" || s.text == "%") {
    auto divisor = linear_form(s.args[1]);
    bool positive = divisor && divisor->terms.empty() && divisor->constant > 0;
    if (!is_index_arithmetic(s) || !positive) {
      fail(s, fmt::format("'{}' stands only between indices and positive whole numbers", s.text));
    }
    return cast(acc_, index(s, scope));
  }
  if (s.text == "/" && !is_float(acc_)) {
    fail(s, fmt::format("'/' needs a float accumulator, not {}", to_string(acc_)));
  }
  Expr a = value(s.args[0], scope), b = value(s.args[1], scope);
  if (s.text == "+") return a + b;
  if (s.text == "-") return a - b;
  return s.text == "*" ? a * b : a / b;
}

Expr ExprBuilder::call_value(const Syntax& s, const Scope& scope) const {
  if (s.text == "select") {
    Expr c = cond(s.args[0], scope);
    return select(c, value(s.args[1], scope), value(s.args[2], scope));
  }
  Expr a = value(s.args[0], scope);
  if (s.text == "max") return max(a, value(s.args[1], scope));
  if (s.text == "min") return min(a, value(s.args[1], scope));
  if (s.text == "abs") return unary(UnaryOp::Abs, a);
  if (!is_float(acc_)) {
    fail(s, fmt::format("'{}' needs a float accumulator, not {}", s.text, to_string(acc_)));
  }
  for (UnaryOp op : {UnaryOp::Exp, UnaryOp::Log, UnaryOp::Sqrt, UnaryOp::Rsqrt, UnaryOp::Tanh,
                     UnaryOp::Erf, UnaryOp::Floor, UnaryOp::Round}) {
    if (s.text == name_of(op)) return unary(op, a);
  }
  TW_ASSERT(false, "a function without a meaning: " + s.text);
  return {};
}

// Whether the value is one that an index may have: no product of indices, divisions by positive numbers alone.
bool is_index_value(const Syntax& s) {
  if (s.kind != Syntax::Kind::Binary || linear_form(s)) {
    return is_index_arithmetic(s) && linear_form(s).has_value();
  }
  if (s.text != "//" && s.text != "%") {
    return s.text != "/" && s.text != "*" && std::ranges::all_of(s.args, is_index_value);
  }
  const auto divisor = linear_form(s.args[1]);
  return divisor && divisor->terms.empty() && divisor->constant > 0 && is_index_value(s.args[0]);
}

Expr ExprBuilder::cond(const Syntax& s, const Scope& scope) const {
  if (s.kind == Syntax::Kind::Not) return !cond(s.args[0], scope);
  if (s.kind == Syntax::Kind::Logic) {
    Expr a = cond(s.args[0], scope), b = cond(s.args[1], scope);
    return s.text == "&&" ? a && b : a || b;
  }
  const bool indices = is_index_value(s.args[0]) && is_index_value(s.args[1]);
  Expr a = indices ? index(s.args[0], scope) : value(s.args[0], scope);
  Expr b = indices ? index(s.args[1], scope) : value(s.args[1], scope);
  if (s.text == "<") return a < b;
  if (s.text == "<=") return a <= b;
  if (s.text == ">") return a > b;
  if (s.text == ">=") return a >= b;
  return s.text == "==" ? eq(a, b) : ne(a, b);
}

std::vector<std::string> tensor_names(const ExprAnalysis& analysis, bool inputs_only) {
  std::vector<std::string> names;
  for (const TensorInfo& t : analysis.tensors) {
    if (!inputs_only || t.written_by < 0) names.push_back(t.name);
  }
  return names;
}

// Types must name tensors, and shapes inputs, that exist. A type that equals the default is
// dropped.
void normalize_tensor_keys(Spec& spec, const ExprAnalysis& analysis) {
  for (auto it = spec.params.begin(); it != spec.params.end();) {
    const std::string key = it->first;
    const bool is_shape = key.rfind("shapes.", 0) == 0;
    if (!is_shape && key.rfind("dtypes.", 0) != 0) {
      ++it;
      continue;
    }
    const std::string name = key.substr(7);
    const TensorInfo* t = analysis.find(name);
    if (t == nullptr || (is_shape && t->written_by >= 0)) {
      throw KeyError(key, fmt::format("the expression has no {} '{}'; it has {}",
                                      is_shape ? "input" : "tensor", name,
                                      fmt::join(tensor_names(analysis, is_shape), ", ")));
    }
    bool same = !is_shape && std::get<std::string>(it->second) == default_type(analysis, *t, spec);
    it = same ? spec.params.erase(it) : std::next(it);
  }
}

void normalize_weights(Spec& spec, const ExprAnalysis& analysis) {
  auto weights = spec.get<std::vector<std::string>>("weights");
  for (const std::string& name : weights) {
    const TensorInfo* t = analysis.find(name);
    if (t == nullptr || t->written_by >= 0) {
      throw KeyError("weights", fmt::format("the expression has no input '{}'; it has {}", name,
                                            fmt::join(tensor_names(analysis, true), ", ")));
    }
  }
  std::sort(weights.begin(), weights.end());
  weights.erase(std::unique(weights.begin(), weights.end()), weights.end());
  spec.params["weights"] = weights;
}

void normalize_expr(Spec& spec) {
  normalize_types(spec);
  ExprAnalysis analysis = analyze_expr(spec);
  normalize_tensor_keys(spec, analysis);
  normalize_weights(spec, analysis);
  spec.params["expr"] = spell(analysis.statements);
}

}  // namespace

std::vector<Operator> expr_operators() {
  KeyDef expr{.name = "expr",
              .kind = KeyKind::Text,
              .doc = fmt::format(
                  "statements T[i,j] = value, or +=, max=, min= over the indices that are absent "
                  "on the left; ';' between them; values of + - * /, // and % between indices, and "
                  "the functions {}; a condition is the first argument of select",
                  fmt::join(function_names(), " ")),
              .required = true};
  KeyDef dims{
      .name = "dims", .kind = KeyKind::SizeMap, .doc = "the size of each index", .required = true};
  KeyDef dtypes{.name = "dtypes",
                .kind = KeyKind::ElemMap,
                .doc =
                    "element types by tensor (inputs dtype or i32 for indices, output out, "
                    "others acc); integers of 32 and 64 bits are computed as such from integers",
                .choices = operand_types(false)};
  KeyDef shapes{.name = "shapes",
                .kind = KeyKind::ShapeMap,
                .doc = "shapes of inputs whose size does not follow from their indices"};
  KeyDef weights{.name = "weights",
                 .kind = KeyKind::Names,
                 .doc = "inputs that are constant over launches",
                 .fallback = std::vector<std::string>{}};
  return {
      {"expr", "a tensor expression of your own",
       "inputs and output by their names in the expression",
       "expr:expr=\"C[i, j] += A[i, k] * B[j, k]\",dims.i=512,dims.j=3072,dims.k=768,weights=[B]",
       join({{expr, dims, dtypes, shapes, weights}, type_keys()}), normalize_expr,
       [](const Spec& spec) { return ExprBuilder(spec).build(); }}};
}

}  // namespace tilewright::ops
