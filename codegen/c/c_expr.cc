#include "codegen/c/c_expr.h"

#include "codegen/c/c_types.h"
#include "codegen/reserved_words.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <optional>

#include "codegen/c/c_codes.h"
#include "codegen/c/c_narrow.h"
#include "codegen/c/c_packed.h"
#include "codegen/lowering.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

std::string join(const std::vector<std::string>& items) {
  return fmt::format("{}", fmt::join(items, ", "));
}

// True when an element is stored in another type than it is computed in.

std::string c_float_literal(double value, bool f64) {
  std::string suffix = f64 ? "" : "f";
  if (std::isnan(value)) return "__builtin_nan" + suffix + "(\"\")";
  if (std::isinf(value)) return (value < 0 ? "-__builtin_inf" : "__builtin_inf") + suffix + "()";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return (value < 0 ? "(" + text : text) + suffix + (value < 0 ? ")" : "");
}

}  // namespace

CExpr::CExpr(Prelude& prelude, Analyzer& known)
    : prelude_(prelude), known_(known), used_(reserved_words()) {
  // Names that every function declares.
  used_.insert({"args", "begin", "closure", "context", "dims", "end", "worker"});
}

std::string CExpr::fresh(const std::string& wanted) {
  const std::string base = identifier_of(wanted);
  std::string name = base;
  for (int i = 1; !used_.insert(name).second; ++i) name = fmt::format("{}_{}", base, i);
  return name;
}

std::string CExpr::bind(const Expr& var, const std::string& wanted) {
  return vars_[var.get()] = fresh(wanted);
}

std::string CExpr::lanes_of(const std::vector<std::string>& items, Type type) {
  return fmt::format("({}){{{}}}", prelude_.value_type(type), join(items));
}

std::string CExpr::splat(const std::string& scalar, Type type) {
  std::string vector = prelude_.value_type(type);
  if (scalar == "0" || scalar == "0.0f" || scalar == "0.0") return fmt::format("({}){{0}}", vector);
  ElemType elem = type.elem == ElemType::boolean ? ElemType::i32 : compute_elem(type.elem);
  return fmt::format("{}({})", prelude_.helper("splat", Type(elem, type.lanes)), scalar);
}

std::string CExpr::immediate(const Expr& e) {
  if (auto* f = e.as<FloatImmNode>())
    return c_float_literal(f->value, e.type().elem == ElemType::f64);
  int64_t value = e.as<IntImmNode>()->value;
  if (e.type().elem == ElemType::boolean) return value ? "1" : "0";
  std::string text = value == INT64_MIN ? "(-9223372036854775807LL - 1)" : std::to_string(value);
  return value < 0 && value != INT64_MIN ? "(" + text + ")" : text;
}

std::string CExpr::print(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm: return immediate(e);
    case ExprKind::Var: {
      auto it = vars_.find(e.get());
      TW_ASSERT(it != vars_.end(),
                "a variable is used outside its scope: " + e.as<VarNode>()->name);
      return it->second;
    }
    case ExprKind::Cast: return cast_text(*e.as<CastNode>());
    case ExprKind::Unary: return unary_text(*e.as<UnaryNode>());
    case ExprKind::Binary: return binary_text(*e.as<BinaryNode>(), e);
    case ExprKind::Select: {
      auto* n = e.as<SelectNode>();
      return select_text(n->cond, n->on_true, n->on_false);
    }
    case ExprKind::Load: return load_text(*e.as<LoadNode>());
    case ExprKind::Ramp: {
      auto* n = e.as<RampNode>();
      // Loads are printed once: masks compare ramps of ramps, and text grows with each lane.
      if (reads_memory(n->base) || reads_memory(n->stride)) {
        const std::string numbers = print(ramp(Expr(0), Expr(1), e.type().lanes));
        return fmt::format("({} + {} * {})", splat(print(n->base), e.type()),
                           splat(print(n->stride), e.type()), numbers);
      }
      std::vector<std::string> items;
      for (int i = 0; i < e.type().lanes; ++i) items.push_back(lane(e, i));
      return lanes_of(items, e.type());
    }
    case ExprKind::Broadcast: {
      auto* n = e.as<BroadcastNode>();
      if (std::string text = spread_text(*n); !text.empty()) return text;
      std::string value = print(n->value);
      if (e.type().elem == ElemType::boolean) value = fmt::format("-({})", value);
      return splat(value, e.type());
    }
    case ExprKind::Call: {
      auto* n = e.as<CallNode>();
      if (n->op == CallOp::IfThenElse) return select_text(n->args[0], n->args[1], n->args[2]);
      if (n->op == CallOp::Dot) return dot_text(*n);
      if (n->op == CallOp::LaneSum || n->op == CallOp::LaneMax) return lane_reduction_text(*n);
      if (n->op == CallOp::Prefetch) {
        const LoadNode& at = *n->args[0].as<LoadNode>();
        return fmt::format("__builtin_prefetch(&{}, 0, {})", element(at.buffer, at.indices[0]),
                           print(n->args[1]));
      }
      throw LoweringError(fmt::format("'{}' has no meaning on a CPU", name_of(n->op)));
    }
  }
  return "";
}

Expr lane_of(const Expr& v, int i) {
  if (v.type().is_scalar()) return v;
  if (auto* n = v.as<RampNode>()) return n->base + n->stride * Expr(i);
  if (auto* n = v.as<BroadcastNode>()) return n->value;
  if (auto* n = v.as<BinaryNode>()) return binary(n->op, lane_of(n->a, i), lane_of(n->b, i));
  if (auto* n = v.as<UnaryNode>()) return unary(n->op, lane_of(n->a, i));
  if (auto* n = v.as<CastNode>()) return cast(n->type.with_lanes(1), lane_of(n->value, i));
  if (auto* n = v.as<SelectNode>()) {
    return select(lane_of(n->cond, i), lane_of(n->on_true, i), lane_of(n->on_false, i));
  }
  if (auto* n = v.as<LoadNode>()) {
    Expr mask = n->predicate.defined() ? lane_of(n->predicate, i) : Expr();
    return load(n->buffer, {lane_of(n->indices[0], i)}, mask);
  }
  return {};
}

std::string CExpr::lane_reduction_text(const CallNode& n) {
  const Type vector(compute_elem(n.type.elem), n.args[0].type().lanes);
  std::vector<std::string> vectors;
  for (const Expr& a : n.args) vectors.push_back(print(a));
  const std::string name =
      prelude_.reduce_lanes(n.op == CallOp::LaneSum, vector, static_cast<int>(n.args.size()));
  return rounded(n.type.elem, n.type.lanes, fmt::format("{}({})", name, join(vectors)));
}

// The text of lane i of a vector expression.
std::string CExpr::lane(const Expr& vector, int i) {
  Expr scalar = lane_of(vector, i);
  if (scalar.defined()) return print(known_.simplify(scalar));
  return fmt::format("({})[{}]", print(vector), i);
}

std::string CExpr::rounded(ElemType elem, int lanes, const std::string& value) {
  if (!narrow(elem)) return value;
  return decode(elem, lanes, encode(elem, lanes, value));
}

std::string CExpr::decode(ElemType elem, int lanes, const std::string& memory) {
  if (lanes == 1) {
    if (elem == ElemType::boolean) return memory;
    return narrow(elem) ? fmt::format("{}({})", prelude_.helper("from", elem), memory) : memory;
  }
  std::string type = prelude_.value_type(Type(elem, lanes));
  if (!narrow(elem)) return fmt::format("({})({})", type, memory);
  if (has_widen(elem, lanes, prelude_.target())) {
    return fmt::format("{}({})", prelude_.helper("widen", Type(elem, lanes)), memory);
  }
  if (elem == ElemType::f16) return fmt::format("__builtin_convertvector({}, {})", memory, type);
  if (elem == ElemType::bf16) {
    std::string u32 = prelude_.value_type(Type(ElemType::u32, lanes));
    return fmt::format("({})(__builtin_convertvector({}, {}) << 16)", type, memory, u32);
  }
  std::string name = prelude_.helper("from", elem), temp = fresh("m");
  std::vector<std::string> items;
  for (int i = 0; i < lanes; ++i) items.push_back(fmt::format("{}({}[{}])", name, temp, i));
  return fmt::format("({{ {} {} = {}; {}; }})", prelude_.memory_type(elem, lanes), temp, memory,
                     lanes_of(items, Type(elem, lanes)));
}

std::string CExpr::encode(ElemType elem, int lanes, const std::string& value) {
  if (lanes == 1) {
    if (narrow(elem)) return fmt::format("{}({})", prelude_.helper("to", elem), value);
    return value;
  }
  std::string memory = prelude_.memory_type(elem, lanes);
  if (elem == ElemType::boolean) {
    return fmt::format("__builtin_convertvector(-({}), {})", value, memory);
  }
  if (!narrow(elem)) return fmt::format("({})({})", memory, value);
  if (has_narrow(elem, lanes, prelude_.target())) {
    return fmt::format("{}({})", prelude_.helper("narrow", Type(elem, lanes)), value);
  }
  if (elem == ElemType::f16) return fmt::format("__builtin_convertvector({}, {})", value, memory);
  std::string name = prelude_.helper("to", elem), temp = fresh("v");
  std::vector<std::string> items;
  for (int i = 0; i < lanes; ++i) items.push_back(fmt::format("{}({}[{}])", name, temp, i));
  return fmt::format("({{ {} {} = {}; ({}){{{}}}; }})", prelude_.value_type(Type(elem, lanes)),
                     temp, value, memory, join(items));
}

// The load of codes behind two casts, where a table holds the codes' rounded values as f32 lanes;
// null for other values.
static const LoadNode* rounded_codes(const CastNode& n, const Target& target) {
  auto* rounded = n.value.as<CastNode>();
  auto* codes = rounded ? rounded->value.as<LoadNode>() : nullptr;
  const bool has_table = codes && n.type.elem == ElemType::f32 &&
                         tells_rounded(codes->type.elem, rounded->type.elem, n.type.lanes, target);
  return has_table ? codes : nullptr;
}

// A half that is loaded from memory and computed with in all lanes; "" for other values.
std::string CExpr::spread_text(const BroadcastNode& n) {
  auto* cast = n.value.as<CastNode>();
  auto* load = (cast ? cast->value : n.value).as<LoadNode>();
  if (!load || load->predicate.defined() || compute_elem(n.type.elem) != ElemType::f32) return "";
  const ElemType elem = load->type.elem;
  const bool in_memory = buffers.at(load->buffer.get()).variables.empty();
  if (!in_memory || !has_spread(elem, n.type.lanes, prelude_.target())) return "";
  if (cast && narrow(n.type.elem)) return "";  // it rounds
  const Expr& index = load->indices[0];
  return fmt::format("{}({})", prelude_.helper("spread", Type(elem, n.type.lanes)),
                     stored(load->buffer, print(index), index));
}

std::string CExpr::cast_text(const CastNode& n) {
  ElemType from = n.value.type().elem, to = n.type.elem;
  int lanes = n.type.lanes;
  auto* loaded = n.value.as<LoadNode>();
  if (loaded && to == ElemType::f32 && has_value_table(from, lanes, prelude_.target()) &&
      buffers.at(loaded->buffer.get()).variables.empty()) {
    std::string text = packed_load(*loaded, "_f32");
    if (!text.empty()) return text;
  }
  auto* coded = rounded_codes(n, prelude_.target());
  if (coded && buffers.at(coded->buffer.get()).variables.empty()) {
    std::string text = packed_load(*coded, "_" + to_string(from));
    if (!text.empty()) return text;
  }
  if (!narrow(to)) {
    std::string elements = codes(n);
    if (!elements.empty()) return elements;
  }
  std::string value = print(n.value);
  if (from == ElemType::boolean && lanes > 1) value = fmt::format("(-({}))", value);
  bool same = compute_elem(from) == compute_elem(to);
  if (to == ElemType::boolean) {
    return lanes == 1 ? fmt::format("(({}) != 0)", value)
                      : fmt::format("__builtin_convertvector(({}) != 0, {})", value,
                                    prelude_.value_type(n.type));
  }
  // Converts through 32-bit lanes: the compiler splits a longer conversion lane by lane.
  bool small = lanes > 1 && !narrow(from) && bits_of(compute_elem(to)) >= 32 &&
               has_widen(from, lanes, prelude_.target());
  if (small) {
    value = fmt::format("{}({})", prelude_.helper("widen", Type(from, lanes)), value);
    same = compute_elem(to) == ElemType::i32;
  }
  bool shrinks = lanes > 1 && compute_elem(from) == ElemType::f32 && is_integer(to) &&
                 !narrow(to) && bits_of(to) < 32;
  if (shrinks) {
    value = fmt::format("__builtin_convertvector({}, {})", value,
                        prelude_.value_type(Type(ElemType::i32, lanes)));
  }
  std::string converted = same         ? value
                          : lanes == 1 ? fmt::format("({})({})", prelude_.value_type(n.type), value)
                                       : fmt::format("__builtin_convertvector({}, {})", value,
                                                     prelude_.value_type(n.type));
  // A narrower float rounds; a wider one holds every value of the narrower.
  return from == to ? converted : rounded(to, lanes, converted);
}

std::string CExpr::unary_text(const UnaryNode& n) {
  std::string a = print(n.a);
  if (n.op == UnaryOp::Neg) return fmt::format("(-{})", a);
  if (n.op == UnaryOp::Not) {
    return n.type.lanes == 1 ? fmt::format("(!{})", a) : fmt::format("(~{})", a);
  }
  ElemType elem = compute_elem(n.type.elem);
  std::string op(name_of(n.op)), text;
  if (n.type.lanes > 1) {
    text = fmt::format("{}({})", prelude_.helper(op, Type(elem, n.type.lanes)), a);
  } else if (n.op == UnaryOp::Abs && !is_float(elem)) {
    std::string t = prelude_.value_type(elem), v = fresh("a");
    text = fmt::format("({{ {} {} = {}; {} < 0 ? -{} : {}; }})", t, v, a, v, v, v);
  } else {
    std::string suffix = elem == ElemType::f64 ? "" : "f";
    if (n.op == UnaryOp::Rsqrt) {
      text = fmt::format("(1 / __builtin_sqrt{}({}))", suffix, a);
    } else {
      if (n.op == UnaryOp::Abs) op = "fabs";
      if (n.op == UnaryOp::Round) op = "rint";
      text = fmt::format("__builtin_{}{}({})", op, suffix, a);
    }
  }
  return rounded(n.type.elem, n.type.lanes, text);
}

std::string CExpr::division(const BinaryNode& n) {
  std::string a = print(n.a), b = print(n.b);
  auto divisor = as_int(n.b);
  Interval range = n.a.type() == Type(ElemType::index) ? known_.bounds(n.a) : Interval{};
  bool plain = divisor && *divisor > 0 && range.min != Interval::kNegInf && range.min >= 0;
  if (info(n.type.elem).kind == ElemKind::UInt) plain = n.type.lanes == 1;
  if (plain) return fmt::format("({} {} {})", a, n.op == BinaryOp::FloorDiv ? "/" : "%", b);
  return fmt::format("{}({}, {})", prelude_.helper(std::string(name_of(n.op)), n.type), a, b);
}

// Lane i of a vector of indices is base + stride i.
struct Linear {
  Expr base;
  int64_t stride = 0;
};

static std::optional<Linear> linear(const Expr& v) {
  if (auto* n = v.as<BroadcastNode>()) return Linear{n->value, 0};
  if (auto* n = v.as<RampNode>()) {
    const auto stride = as_int(n->stride);
    return stride ? std::optional(Linear{n->base, *stride}) : std::nullopt;
  }
  auto* n = v.as<BinaryNode>();
  if (n == nullptr || (n->op != BinaryOp::Add && n->op != BinaryOp::Sub)) return std::nullopt;
  const auto a = linear(n->a), b = linear(n->b);
  if (!a || !b) return std::nullopt;
  const int64_t sign = n->op == BinaryOp::Add ? 1 : -1;
  return Linear{binary(n->op, a->base, b->base), a->stride + sign * b->stride};
}

// Indices have 64 bits, and a vector that begins at a variable is put together lane by lane. The difference of
// both sides at lane 0 is a scalar, which 32-bit lanes compare with constants. "" where it may not fit.
std::string CExpr::index_comparison(const BinaryNode& n) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const int lanes = n.type.lanes;
  if (lanes == 1 || !is_comparison(n.op) || n.a.type().elem != ElemType::index) return "";
  const auto a = linear(n.a), b = linear(n.b);
  if (!a || !b) return "";
  const int64_t stride = b->stride - a->stride;
  if (stride > kMost / lanes || stride < -kMost / lanes) return "";
  const Expr difference = known_.simplify(a->base - b->base);
  const Interval range = known_.bounds(difference);
  if (range.min < -kMost || range.max > kMost) return "";
  std::vector<std::string> steps;
  for (int i = 0; i < lanes; ++i) steps.push_back(std::to_string(i * stride));
  const Type type(ElemType::i32, lanes);
  return fmt::format("({} {} {})", splat(fmt::format("(int32_t){}", print(difference)), type),
                     name_of(n.op), lanes_of(steps, type));
}

std::string CExpr::binary_text(const BinaryNode& n, const Expr& e) {
  if (std::string compared = index_comparison(n); !compared.empty()) return compared;
  if (std::string scaled = scaled_product(e); !scaled.empty()) return scaled;
  ElemType elem = compute_elem(n.a.type().elem);
  int lanes = n.type.lanes;
  std::string text;
  switch (n.op) {
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod: return division(n);
    case BinaryOp::Min:
    case BinaryOp::Max:
      return fmt::format("{}({}, {})", prelude_.helper(std::string(name_of(n.op)), {elem, lanes}),
                         print(n.a), print(n.b));
    case BinaryOp::And:
    case BinaryOp::Or: {
      std::string op(name_of(n.op));
      return fmt::format("({} {} {})", print(n.a), lanes == 1 ? op : op.substr(1), print(n.b));
    }
    default: text = fmt::format("({} {} {})", print(n.a), name_of(n.op), print(n.b));
  }
  if (n.type.elem == ElemType::boolean) {
    bool wide = lanes > 1 && bits_of(elem) != 32 && elem != ElemType::boolean;
    return wide ? fmt::format("__builtin_convertvector({}, {})", text, prelude_.value_type(n.type))
                : text;
  }
  // C promotes small integers to int: bring a scalar back to its type.
  if (lanes == 1 && !is_float(elem) && bits_of(elem) < 32) {
    text = fmt::format("({})({})", prelude_.value_type(elem), text);
  }
  return rounded(n.type.elem, lanes, text);
}

std::string CExpr::select_text(const Expr& cond, const Expr& t, const Expr& f) {
  constexpr int kMaskBits = 32;  // a lane's
  if (cond.type().lanes * kMaskBits > prelude_.target().vector_bits) {
    // GCC compares the lanes of masks that are longer than a register one by one.
    const std::string part = part_or_zeros(cond, t, f);
    if (!part.empty()) return decode(t.type().elem, t.type().lanes, part);
  }
  std::string a = print(t), b = print(f), c = print(cond);
  if (cond.type().is_scalar()) return fmt::format("({} ? {} : {})", c, a, b);
  Type type(compute_elem(t.type().elem), t.type().lanes);
  if (type.elem == ElemType::boolean) type.elem = ElemType::i32;
  return fmt::format("{}({}, {}, {})", prelude_.helper("select", type), c, a, b);
}

}  // namespace tilewright
