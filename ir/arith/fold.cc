#include "ir/arith/fold.h"

#include <cmath>
#include <limits>

#include "ir/arith/order.h"
#include "ir/arith/rewriter.h"

namespace tilewright::arith {
namespace {

// True for types whose own arithmetic equals f64 arithmetic rounded once.
bool has_float_arithmetic(ElemType elem) {
  return elem == ElemType::f64 || elem == ElemType::f32 || elem == ElemType::f16 ||
         elem == ElemType::bf16;
}

// 1-bit integers stand for -1 and 1, which are not closed under integer arithmetic.
bool has_integer_arithmetic(ElemType elem) { return is_integer(elem) && elem != ElemType::i1; }

std::optional<double> float_constant(const Expr& e) {
  Expr lane = constant_lane(e);
  if (auto* n = lane.as<FloatImmNode>()) return n->value;
  return std::nullopt;
}

std::optional<int64_t> int_constant(const Expr& e) { return as_int(constant_lane(e)); }

bool is_float_value(const Expr& e, double value) {
  auto c = float_constant(e);
  return c && *c == value && std::signbit(*c) == std::signbit(value);
}

// The value wrapped to the type, or nothing when it overflows 64 bits.
std::optional<int64_t> wrap(ElemType elem, __int128 value) {
  int bits = bits_of(elem);
  if (bits >= 64) {
    bool fits = value >= std::numeric_limits<int64_t>::min() &&
                value <= std::numeric_limits<int64_t>::max() &&
                (elem != ElemType::u64 || value >= 0);
    return fits ? std::optional(static_cast<int64_t>(value)) : std::nullopt;
  }
  __int128 modulus = __int128{1} << bits;
  __int128 rest = ((value % modulus) + modulus) % modulus;
  if (info(elem).kind == ElemKind::Int && rest >= modulus / 2) rest -= modulus;
  return static_cast<int64_t>(rest);
}

std::optional<bool> compare_values(BinaryOp op, auto a, auto b) {
  switch (op) {
    case BinaryOp::EQ: return a == b;
    case BinaryOp::NE: return a != b;
    case BinaryOp::LT: return a < b;
    case BinaryOp::LE: return a <= b;
    case BinaryOp::GT: return a > b;
    case BinaryOp::GE: return a >= b;
    default: return std::nullopt;
  }
}

Expr fold_integers(BinaryOp op, Type type, int64_t a, int64_t b) {
  if (auto truth = compare_values(op, a, b)) {
    return make_int(Type(ElemType::boolean, type.lanes), *truth);
  }
  if (!has_integer_arithmetic(type.elem)) return {};
  __int128 x = a, y = b, result = 0;
  switch (op) {
    case BinaryOp::Add: result = x + y; break;
    case BinaryOp::Sub: result = x - y; break;
    case BinaryOp::Mul: result = x * y; break;
    case BinaryOp::Min: result = a < b ? a : b; break;
    case BinaryOp::Max: result = a > b ? a : b; break;
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod: {
      if (b == 0) return {};
      __int128 quotient = x / y;
      if (quotient * y != x && (x < 0) != (y < 0)) quotient -= 1;
      result = op == BinaryOp::FloorDiv ? quotient : x - quotient * y;
      break;
    }
    default: return {};
  }
  auto wrapped = wrap(type.elem, result);
  return wrapped ? make_int(type, *wrapped) : Expr();
}

Expr fold_floats(BinaryOp op, Type type, double a, double b) {
  if (auto truth = compare_values(op, a, b)) {
    return make_int(Type(ElemType::boolean, type.lanes), *truth);
  }
  if (!has_float_arithmetic(type.elem)) return {};
  double result = 0;
  switch (op) {
    case BinaryOp::Add: result = a + b; break;
    case BinaryOp::Sub: result = a - b; break;
    case BinaryOp::Mul: result = a * b; break;
    case BinaryOp::Div: result = a / b; break;
    case BinaryOp::Min:
      if (a == b) return {};  // the target decides which zero results
      result = std::min(a, b);
      break;
    case BinaryOp::Max:
      if (a == b) return {};
      result = std::max(a, b);
      break;
    default: return {};
  }
  if (!std::isfinite(result) || !std::isfinite(round_to(type.elem, result))) return {};
  return make_float(type, result);
}

// x*1, 1*x, x/1, x - (+0), x + (-0) and -0 + x are x for every x.
Expr fold_float_neutral(BinaryOp op, const Expr& a, const Expr& b) {
  switch (op) {
    case BinaryOp::Mul:
      if (is_float_value(a, 1)) return b;
      return is_float_value(b, 1) ? a : Expr();
    case BinaryOp::Div: return is_float_value(b, 1) ? a : Expr();
    case BinaryOp::Add:
      if (is_float_value(a, -0.0)) return b;
      return is_float_value(b, -0.0) ? a : Expr();
    case BinaryOp::Sub: return is_float_value(b, 0) ? a : Expr();
    case BinaryOp::Min:
    case BinaryOp::Max: return identical(a, b) ? a : Expr();
    default: return {};
  }
}

Expr fold_integer_neutral(BinaryOp op, const Expr& a, const Expr& b) {
  auto is = [](const Expr& e, int64_t value) { return int_constant(e) == value; };
  bool alike = identical(a, b);
  Type boolean(ElemType::boolean, a.type().lanes);
  switch (op) {
    case BinaryOp::Add:
      if (is(a, 0)) return b;
      return is(b, 0) ? a : Expr();
    case BinaryOp::Sub:
      if (alike) return make_int(a.type(), 0);
      return is(b, 0) ? a : Expr();
    case BinaryOp::Mul:
      if (is(a, 1) || is(b, 0)) return b;
      return is(b, 1) || is(a, 0) ? a : Expr();
    case BinaryOp::FloorDiv: return is(b, 1) ? a : Expr();
    case BinaryOp::FloorMod: return is(b, 1) ? make_int(a.type(), 0) : Expr();
    case BinaryOp::Min:
    case BinaryOp::Max: return alike ? a : Expr();
    case BinaryOp::EQ:
    case BinaryOp::LE:
    case BinaryOp::GE: return alike ? make_int(boolean, 1) : Expr();
    case BinaryOp::NE:
    case BinaryOp::LT:
    case BinaryOp::GT: return alike ? make_int(boolean, 0) : Expr();
    default: return {};
  }
}

// True when every value of `from` is a value of `to`.
bool widens(ElemType from, ElemType to) {
  if (!has_float_arithmetic(from) || !has_float_arithmetic(to)) return false;
  return from == to || to == ElemType::f64 || (to == ElemType::f32 && from != ElemType::f64);
}

Expr fold_constant_cast(Type type, const Expr& lane) {
  ElemType from = lane.type().elem, to = type.elem;
  if (auto* n = lane.as<FloatImmNode>()) {
    if (has_float_arithmetic(to)) return make_float(type, n->value);
    // Targets differ in conversions out of range, so these are not folded.
    Interval range = values_of(to);
    double truncated = std::trunc(n->value);
    bool fits = has_integer_arithmetic(to) && bits_of(to) <= 32 &&
                truncated >= static_cast<double>(range.min) &&
                truncated <= static_cast<double>(range.max);
    return fits ? make_int(type, static_cast<int64_t>(truncated)) : Expr();
  }
  int64_t value = lane.as<IntImmNode>()->value;
  if (has_float_arithmetic(to)) {
    constexpr int64_t kExact = int64_t{1} << 53;
    bool exact = value >= -kExact && value <= kExact;
    return exact ? make_float(type, static_cast<double>(value)) : Expr();
  }
  bool from_integer = has_integer_arithmetic(from) || from == ElemType::boolean;
  if (!from_integer || !has_integer_arithmetic(to)) return {};
  auto wrapped = wrap(to, value);
  return wrapped ? make_int(type, *wrapped) : Expr();
}

}  // namespace

Expr constant_lane(const Expr& e) {
  if (auto* n = e.as<BroadcastNode>()) return constant_lane(n->value);
  return e.as<IntImmNode>() != nullptr || e.as<FloatImmNode>() != nullptr ? e : Expr();
}

Expr fold_cast(Type type, const Expr& value, Knowledge& known) {
  if (value.type() == type) return value;
  Expr lane = constant_lane(value);
  if (lane.defined()) return fold_constant_cast(type, lane);
  auto* inner = value.as<CastNode>();
  if (inner == nullptr || inner->value.type() != type) return {};
  // A value that went to a wider type and back is unchanged.
  if (widens(type.elem, inner->type.elem)) return inner->value;
  if (!has_integer_arithmetic(type.elem) || !has_integer_arithmetic(inner->type.elem)) return {};
  Interval range = known.bounds(inner->value), room = values_of(inner->type.elem);
  bool fits = type.lanes == 1 && range.min >= room.min && range.max <= room.max;
  return fits ? inner->value : Expr();
}

Expr fold_unary(UnaryOp op, const Expr& a) {
  if (auto* n = a.as<UnaryNode>(); n != nullptr && n->op == op) {
    if (op == UnaryOp::Neg && a.type().elem != ElemType::i1) return n->a;
    if (op == UnaryOp::Abs || op == UnaryOp::Floor || op == UnaryOp::Round) return a;
  }
  if (auto value = float_constant(a); value && has_float_arithmetic(a.type().elem)) {
    if (op == UnaryOp::Neg) return make_float(a.type(), -*value);
    if (op == UnaryOp::Abs) return make_float(a.type(), std::abs(*value));
    if (op == UnaryOp::Floor) return make_float(a.type(), std::floor(*value));
  }
  auto value = int_constant(a);
  if (value && op == UnaryOp::Neg) return fold_integers(BinaryOp::Sub, a.type(), 0, *value);
  if (value && op == UnaryOp::Abs && *value >= 0) return a;
  return {};
}

Expr fold_binary(BinaryOp op, const Expr& a, const Expr& b) {
  Type type = a.type();
  if (is_float(type.elem)) {
    auto x = float_constant(a), y = float_constant(b);
    if (x && y) return fold_floats(op, type, *x, *y);
    return has_float_arithmetic(type.elem) ? fold_float_neutral(op, a, b) : Expr();
  }
  auto x = int_constant(a), y = int_constant(b);
  if (x && y) return fold_integers(op, type, *x, *y);
  if (!has_integer_arithmetic(type.elem)) return {};
  return fold_integer_neutral(op, a, b);
}

}  // namespace tilewright::arith
