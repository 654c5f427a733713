#include "codegen/cuda/cuda_expr.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>

#include "codegen/c/c_types.h"
#include "codegen/cuda_lowering.h"
#include "codegen/lowering.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

// True when an element is stored in another type than it is computed in.

std::string cuda_float_literal(double value, bool f64) {
  std::string suffix = f64 ? "" : "f";
  // NVRTC has no names for these; a double of them is made from the float.
  if (std::isnan(value)) return "tw_float(0x7fc00000u)";
  if (std::isinf(value)) return value < 0 ? "tw_float(0xff800000u)" : "tw_float(0x7f800000u)";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return (value < 0 ? "(" + text : text) + suffix + (value < 0 ? ")" : "");
}

// The text without parentheses around all of it.
std::string bare(const std::string& text) {
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') return text;
  int depth = 0;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth == 0) return text;
  }
  return text.substr(1, text.size() - 2);
}

// The precedence of an operator, higher for tighter; 0 where C has no such operator.
int binding(BinaryOp op) {
  switch (op) {
    case BinaryOp::Mul:
    case BinaryOp::Div:
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod: return 5;
    case BinaryOp::Add:
    case BinaryOp::Sub: return 4;
    case BinaryOp::EQ:
    case BinaryOp::NE:
    case BinaryOp::LT:
    case BinaryOp::LE:
    case BinaryOp::GT:
    case BinaryOp::GE: return 3;
    case BinaryOp::And: return 2;
    default: return 0;
  }
}

// An operand's text beside an operator. `is_right`: the operand stands behind it, where equal
// precedence binds less.
std::string operand(const std::string& text, const Expr& e, BinaryOp op, bool is_right) {
  auto* n = e.as<BinaryNode>();
  bool index = n && (n->a.type().elem == ElemType::index || n->type.elem == ElemType::boolean);
  if (!index || binding(n->op) == 0 || binding(op) == 0) return text;
  int inner = binding(n->op), outer = binding(op);
  bool same = inner == outer && !is_right && outer != 3 && (outer != 5 || n->op == BinaryOp::Mul);
  return inner > outer || same ? bare(text) : text;
}

bool fits_int(Interval range) { return range.min >= INT32_MIN && range.max <= INT32_MAX; }

}  // namespace

std::string cuda_type(ElemType elem) {
  switch (elem) {
    case ElemType::f64: return "double";
    case ElemType::f32: return "float";
    case ElemType::f16: return "tw_f16";
    case ElemType::bf16: return "tw_bf16";
    case ElemType::f8e4m3: return "tw_e4m3";
    case ElemType::f8e5m2: return "tw_e5m2";
    case ElemType::i64:
    case ElemType::index: return "long long";
    case ElemType::i32: return "int";
    case ElemType::i16: return "short";
    case ElemType::i8: return "signed char";
    case ElemType::u64: return "unsigned long long";
    case ElemType::u32: return "unsigned";
    case ElemType::u16: return "unsigned short";
    case ElemType::u8: return "unsigned char";
    case ElemType::boolean: return "bool";
    case ElemType::e8m0:
    case ElemType::f4e2m1:
    case ElemType::nf4:
    case ElemType::i4:
    case ElemType::i2:
    case ElemType::i1:
    case ElemType::u4:
    case ElemType::u2:
    case ElemType::u1: return "unsigned char";
  }
  return "";
}

bool is_coded(ElemType elem) { return bits_of(elem) < 8 || elem == ElemType::e8m0; }

std::string CudaExpr::fresh(const std::string& wanted) {
  const std::string base = identifier_of(wanted);
  std::string name = base;
  for (int i = 1; !used_.insert(name).second; ++i) name = fmt::format("{}_{}", base, i);
  return name;
}

std::string CudaExpr::print_bare(const Expr& e) { return bare(print(e)); }

std::string CudaExpr::bind(const Expr& var, const std::string& wanted) {
  return vars_[var.get()] = fresh(wanted);
}

std::string CudaExpr::bind(const Expr& var, const std::string& wanted, int64_t extent) {
  known_.bind(var, 0, extent);
  return bind(var, wanted);
}

std::string CudaExpr::index_type(Interval range) const {
  return fits_int(range) ? "int" : "long long";
}

bool CudaExpr::is_wide(const Expr& e) const { return !fits_int(known_.bounds(e)); }

std::string CudaExpr::immediate(const Expr& e) {
  if (auto* f = e.as<FloatImmNode>())
    return cuda_float_literal(f->value, e.type().elem == ElemType::f64);
  int64_t value = e.as<IntImmNode>()->value;
  if (e.type().elem == ElemType::boolean) return value ? "true" : "false";
  std::string text = value == INT64_MIN ? "(-9223372036854775807LL - 1)" : std::to_string(value);
  if (!fits_int({value, value}) && value != INT64_MIN) text += "LL";
  return value < 0 && value != INT64_MIN ? "(" + text + ")" : text;
}

std::string CudaExpr::text(const Expr& e, int lane) {
  bool vector_of_places = !e.type().is_scalar() &&
                          (e.type().elem == ElemType::index || e.type().elem == ElemType::boolean);
  if (vector_of_places) return text(lane_of(e, lane), 0);
  switch (e.kind()) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm: return immediate(e);
    case ExprKind::Var: {
      auto it = vars_.find(e.get());
      TW_ASSERT(it != vars_.end(),
                "a variable is used outside its scope: " + e.as<VarNode>()->name);
      return it->second;
    }
    case ExprKind::Cast: return cast_text(*e.as<CastNode>(), lane);
    case ExprKind::Unary: return unary_text(*e.as<UnaryNode>(), lane);
    case ExprKind::Binary: return binary_text(*e.as<BinaryNode>(), lane);
    case ExprKind::Select: {
      auto* n = e.as<SelectNode>();
      return fmt::format("({} ? {} : {})", text(n->cond, lane), text(n->on_true, lane),
                         text(n->on_false, lane));
    }
    case ExprKind::Load: return load_text(*e.as<LoadNode>(), lane);
    case ExprKind::Ramp: return text(lane_of(e, lane), 0);
    case ExprKind::Broadcast: return text(e.as<BroadcastNode>()->value, 0);
    case ExprKind::Call: {
      auto* n = e.as<CallNode>();
      if (n->op == CallOp::IfThenElse) {
        return fmt::format("({} ? {} : {})", text(n->args[0], lane), text(n->args[1], lane),
                           text(n->args[2], lane));
      }
      throw LoweringError(fmt::format("'{}' is not printed for GPUs yet", name_of(n->op)));
    }
  }
  return "";
}

Expr CudaExpr::lane_of(const Expr& v, int i) {
  std::function<Expr(const Expr&)> take = [&](const Expr& e) -> Expr {
    if (e.type().is_scalar()) return e;
    if (auto* n = e.as<RampNode>()) return n->base + n->stride * Expr(i);
    if (auto* n = e.as<BroadcastNode>()) return n->value;
    if (auto* n = e.as<IntImmNode>()) return make_int(n->type.with_lanes(1), n->value);
    if (auto* n = e.as<BinaryNode>()) return binary(n->op, take(n->a), take(n->b));
    if (auto* n = e.as<UnaryNode>()) return unary(n->op, take(n->a));
    if (auto* n = e.as<CastNode>()) return cast(n->type.with_lanes(1), take(n->value));
    if (auto* n = e.as<SelectNode>()) {
      return select(take(n->cond), take(n->on_true), take(n->on_false));
    }
    if (auto* n = e.as<LoadNode>()) {
      Expr mask = n->predicate.defined() ? take(n->predicate) : Expr();
      return load(n->buffer, {take(n->indices[0])}, mask);
    }
    if (auto* n = e.as<FloatImmNode>()) return make_float(n->type.with_lanes(1), n->value);
    throw LoweringError("a vector of indices holds what has no lanes");
  };
  return known_.simplify(take(v));
}

std::string CudaExpr::rounded(ElemType elem, const std::string& value) const {
  if (is_coded(elem)) {
    throw LoweringError(fmt::format("values are not rounded to {} on GPUs yet", to_string(elem)));
  }
  return narrow(elem) ? fmt::format("(float){}({})", cuda_type(elem), value) : value;
}

bool rounds_to_half(const CastNode& n) {
  return n.value.type().elem == ElemType::f32 && is_float(n.type.elem) &&
         bits_of(n.type.elem) <= 16;
}

namespace {

bool is_number(const Expr& e) {
  if (auto* all = e.as<BroadcastNode>()) return is_number(all->value);
  return e.as<FloatImmNode>() || e.as<IntImmNode>();
}

// Whether a value is one of this thread's registers, or where it is masked a constant.
bool is_in_registers(const Expr& e) {
  if (auto* read = e.as<LoadNode>()) return is_private(read->buffer);
  if (auto* all = e.as<BroadcastNode>()) return is_in_registers(all->value);
  if (auto* n = e.as<SelectNode>()) return is_in_registers(n->on_true) && is_number(n->on_false);
  auto* n = e.as<CallNode>();
  return n && n->op == CallOp::IfThenElse && is_in_registers(n->args[1]) && is_number(n->args[2]);
}

// A scalar, or one in all lanes, without its mask: the same for many elements.
Expr unmasked(const Expr& e) {
  if (auto* all = e.as<BroadcastNode>()) return unmasked(all->value);
  if (auto* read = e.as<LoadNode>()) return load(read->buffer, read->indices);
  if (auto* n = e.as<SelectNode>()) return unmasked(n->on_true);
  auto* n = e.as<CallNode>();
  return n && n->op == CallOp::IfThenElse ? unmasked(n->args[1]) : e;
}

// The difference whose exponential a value is; null for others.
const BinaryNode* difference_of_exponential(const Expr& e) {
  auto* n = e.as<UnaryNode>();
  auto* difference = n && n->op == UnaryOp::Exp ? n->a.as<BinaryNode>() : nullptr;
  const bool is_one =
      difference && difference->op == BinaryOp::Sub && difference->type.elem == ElemType::f32;
  return is_one ? difference : nullptr;
}

// The constant factor of a minuend.
const FloatImmNode* factor_of_minuend(const BinaryNode& difference) {
  auto* product = difference.a.as<BinaryNode>();
  if (!product || product->op != BinaryOp::Mul) return nullptr;
  auto* all = product->b.as<BroadcastNode>();
  return (all ? all->value : product->b).as<FloatImmNode>();
}

// Scores with a factor, less their maximum.
bool is_of_registers(const BinaryNode& difference) {
  return factor_of_minuend(difference) && is_in_registers(difference.a.as<BinaryNode>()->a) &&
         is_in_registers(difference.b);
}

}  // namespace

std::string CudaExpr::text_to_round(const Expr& e, int lane) {
  if (auto* n = e.as<SelectNode>()) {
    const BinaryNode* scores = difference_of_exponential(n->on_true);
    if (scores && is_of_registers(*scores) && is_number(n->on_false)) {
      return fmt::format("tw_either({}, {}, {})", bare(text(n->cond, lane)),
                         power_text(*scores, lane, n->cond), text(n->on_false, lane));
    }
    return fmt::format("({} ? {} : {})", text(n->cond, lane), text_to_round(n->on_true, lane),
                       text_to_round(n->on_false, lane));
  }
  auto* quotient = e.as<BinaryNode>();
  if (quotient && quotient->op == BinaryOp::Div && quotient->type.elem == ElemType::f32) {
    return fmt::format("tw_quotient({}, {})", bare(text(quotient->a, lane)),
                       bare(text(quotient->b, lane)));
  }
  auto* n = e.as<UnaryNode>();
  if (!n || n->op != UnaryOp::Exp) return text(e, lane);
  const BinaryNode* difference = difference_of_exponential(e);
  return difference ? power_text(*difference, lane) : fmt::format("__expf({})", text(n->a, lane));
}

// A value in registers behind a mask. A guard of its load that comes from the mask is left out; that of
// a value in all lanes is the first lane's.
std::string CudaExpr::register_text(const Expr& e, int lane, const Expr& mask) {
  auto* all = e.as<BroadcastNode>();
  auto* read = (all ? all->value : e).as<LoadNode>();
  const int at = all ? 0 : lane;
  const bool is_guarded = mask.defined() && read && read->predicate.defined() &&
                          text(read->predicate, at) == text(mask, at);
  return is_guarded ? text(load(read->buffer, read->indices), at) : text(e, lane);
}

// The exponential of a difference by the available instruction, a power of two. Of registers with a
// factor (scores and their maximum) both sides are brought to base 2, which is one multiply-add a
// value where the subtrahend is that of many. For equal numbers it is off by their own rounding, which
// one more factor keeps small however large they are (tw_softened). That is the same for many values,
// too: it takes no mask, and behind a `mask` all is computed and then chosen, not branched around.
// Otherwise the difference is taken first, with a factor of the minuend in it: of equal numbers
// without a factor it is 0, however large they are.
std::string CudaExpr::power_text(const BinaryNode& difference, int lane, const Expr& mask) {
  constexpr double kLog2E = 1.4426950408889634;
  auto* product = difference.a.as<BinaryNode>();
  const FloatImmNode* number = factor_of_minuend(difference);
  const double factor = number ? number->value : 1;
  if (is_of_registers(difference)) {
    const std::string softened =
        fmt::format("tw_softened({})", bare(text(unmasked(difference.b), lane)));
    return fmt::format(
        "tw_exp2(fmaf({0}, {1} * {4}, -({2} * ({3} * {4}))))",
        bare(register_text(product->a, lane, mask)), cuda_float_literal(factor * kLog2E, false),
        register_text(difference.b, lane, mask), cuda_float_literal(kLog2E, false), softened);
  }
  return fmt::format("tw_exp2(fmaf({}, {}, -{}) * {})",
                     bare(text(number ? product->a : difference.a, lane)),
                     cuda_float_literal(factor, false), text(difference.b, lane),
                     cuda_float_literal(kLog2E, false));
}

std::string CudaExpr::stored_text(const Expr& e, ElemType elem, int lane) {
  auto* n = e.as<CastNode>();
  // One rounding is enough.
  const bool rounds = n && n->type.elem == elem && rounds_to_half(*n);
  return fmt::format("{}({})", cuda_type(elem),
                     rounds ? text_to_round(n->value, lane) : text(e, lane));
}

std::string CudaExpr::cast_text(const CastNode& n, int lane) {
  ElemType from = n.value.type().elem, to = n.type.elem;
  std::string value = rounds_to_half(n) ? text_to_round(n.value, lane) : text(n.value, lane);
  if (to == ElemType::boolean) return fmt::format("({} != 0)", value);
  std::string type =
      to == ElemType::index ? index_type(known_.bounds(n.value)) : cuda_type(compute_elem(to));
  std::string converted =
      compute_elem(from) == compute_elem(to) ? value : fmt::format("({})({})", type, value);
  // A narrower float rounds; a wider one holds every value of the narrower.
  return from == to ? converted : rounded(to, converted);
}

std::string CudaExpr::unary_text(const UnaryNode& n, int lane) {
  std::string a = text(n.a, lane);
  ElemType elem = compute_elem(n.type.elem);
  std::string suffix = elem == ElemType::f64 ? "" : "f";
  switch (n.op) {
    case UnaryOp::Neg: return fmt::format("(-{})", a);
    case UnaryOp::Not: return fmt::format("(!{})", a);
    case UnaryOp::Rsqrt: a = fmt::format("(1 / sqrt{}({}))", suffix, a); break;
    case UnaryOp::Round: a = fmt::format("rint{}({})", suffix, a); break;
    case UnaryOp::Abs:
      a = is_float(elem) ? fmt::format("fabs{}({})", suffix, a)
                         : fmt::format("({0} < 0 ? -{0} : {0})", a);
      break;
    default: a = fmt::format("{}{}({})", name_of(n.op), suffix, a);
  }
  return rounded(n.type.elem, a);
}

std::string CudaExpr::named_quotient(const BinaryNode& n) {
  const auto divisor = as_int(n.b);
  if (n.op != BinaryOp::FloorDiv || !quotient_.var.defined() || n.a.get() != quotient_.var.get() ||
      !divisor || *divisor <= 0 || *divisor % quotient_.divisor != 0) {
    return "";
  }
  quotient_.is_used = true;
  const int64_t rest = *divisor / quotient_.divisor;
  return rest == 1 ? quotient_.name : fmt::format("({} / {})", quotient_.name, rest);
}

// Index arithmetic, in 32 bits wherever all values fit.
std::string CudaExpr::index_text(const BinaryNode& n) {
  if (std::string named = named_quotient(n); !named.empty()) return named;
  std::string a = print(n.a), b = print(n.b);
  switch (n.op) {
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod: {
      Interval range = known_.bounds(n.a), divisor = known_.bounds(n.b);
      bool is_mod = n.op == BinaryOp::FloorMod;
      if (range.min >= 0 && divisor.min > 0) {
        return fmt::format("({} {} {})", operand(a, n.a, n.op, false), is_mod ? "%" : "/",
                           operand(b, n.b, n.op, true));
      }
      std::string mod = fmt::format("(({0} % {1} + {1}) % {1})", a, b);
      return is_mod ? mod : fmt::format("(({} - {}) / {})", a, mod, b);
    }
    case BinaryOp::Min: return fmt::format("({0} < {1} ? {0} : {1})", a, b);
    case BinaryOp::Max: return fmt::format("({0} > {1} ? {0} : {1})", a, b);
    default: break;
  }
  if (n.type.elem == ElemType::index && !is_wide(n.a) && !is_wide(n.b)) {
    Expr sum = binary(n.op, n.a, n.b);
    if (is_wide(sum)) a = "(long long)" + a;
  }
  return fmt::format("({} {} {})", operand(a, n.a, n.op, false), name_of(n.op),
                     operand(b, n.b, n.op, true));
}

std::string CudaExpr::binary_text(const BinaryNode& n, int lane) {
  if (n.a.type() == Type(ElemType::index)) return index_text(n);
  ElemType elem = compute_elem(n.a.type().elem);
  std::string a = text(n.a, lane), b = text(n.b, lane);
  std::string suffix = elem == ElemType::f64 ? "" : "f";
  switch (n.op) {
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod: {
      bool is_mod = n.op == BinaryOp::FloorMod;
      if (info(elem).kind == ElemKind::UInt)
        return fmt::format("({} {} {})", a, is_mod ? "%" : "/", b);
      throw LoweringError("divisions of signed integers are not printed for GPUs yet");
    }
    case BinaryOp::Min:
    case BinaryOp::Max: {
      bool is_min = n.op == BinaryOp::Min;
      if (is_float(elem)) return fmt::format("f{}{}({}, {})", name_of(n.op), suffix, a, b);
      return fmt::format("({0} {2} {1} ? {0} : {1})", a, b, is_min ? "<" : ">");
    }
    default: break;
  }
  std::string text = fmt::format("({} {} {})", operand(a, n.a, n.op, false), name_of(n.op),
                                 operand(b, n.b, n.op, true));
  if (n.type.elem == ElemType::boolean) return text;
  // C promotes small integers to int: bring a value back to its type.
  if (!is_float(elem) && bits_of(elem) < 32) text = fmt::format("({}){}", cuda_type(elem), text);
  return rounded(n.type.elem, text);
}

}  // namespace tilewright
