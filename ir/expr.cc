#include "ir/expr.h"

#include <fmt/core.h>

#include <bit>
#include <limits>

#include "ir/buffer.h"
#include "ir/call_table.h"
#include "ir/dot_shape.h"
#include "ir/require.h"
#include "ir/text/printer.h"

namespace tilewright {
namespace {

void require_defined(const Expr& e, std::string_view what, const char* operand) {
  require(e.defined(), [&] { return fmt::format("{}: operand '{}' is undefined", what, operand); });
}

// Throws IrError unless the arguments fit an if_then_else of that type.
void require_choice(Type type, const std::vector<Expr>& args) {
  Type cond = args[0].type();
  require(cond.elem == ElemType::boolean, [&] {
    return fmt::format("if_then_else: the condition has type {}, not bool", to_string(cond));
  });
  require(cond.lanes == 1 || cond.lanes == type.lanes,
          "if_then_else: the condition's lanes do not match the sides'");
  require(args[1].type() == type && args[2].type() == type, [&] {
    return fmt::format("if_then_else: the sides have types {} and {}, not {}",
                       to_string(args[1].type()), to_string(args[2].type()), to_string(type));
  });
}

// Broadcasts the scalar side so that both have the same number of lanes.
void match_lanes(Expr& a, Expr& b) {
  if (a.type().lanes == 1 && b.type().lanes > 1) a = broadcast(a, b.type().lanes);
  if (b.type().lanes == 1 && a.type().lanes > 1) b = broadcast(b, a.type().lanes);
}

void check_operator_type(BinaryOp op, ElemType elem) {
  bool boolean = elem == ElemType::boolean;
  switch (op) {
    case BinaryOp::And:
    case BinaryOp::Or:
      require(boolean, [&] {
        return fmt::format("'{}' joins booleans, got {}", name_of(op), info(elem).name);
      });
      return;
    case BinaryOp::Div:
      require(is_float(elem), [&] {
        return fmt::format("'/' divides floats, got {}; integers take floordiv", info(elem).name);
      });
      return;
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod:
      require(is_integer(elem), [&] {
        return fmt::format("'{}' takes integers, got {}", name_of(op), info(elem).name);
      });
      return;
    case BinaryOp::EQ:
    case BinaryOp::NE: return;
    default:
      require(!boolean, [&] { return fmt::format("'{}' takes numbers, got bool", name_of(op)); });
  }
}

double highest(ElemType elem) {
  const ElemInfo& t = info(elem);
  if (t.kind == ElemKind::Float) {
    return elem == ElemType::f64 || elem == ElemType::f32 || elem == ElemType::f16 ||
                   elem == ElemType::bf16
               ? std::numeric_limits<double>::infinity()
               : round_to(elem, 1e300);
  }
  if (t.bits >= 64) return 0x1p62;  // exact in f64, and beyond any index
  return t.kind == ElemKind::UInt ? static_cast<double>((int64_t{1} << t.bits) - 1)
                                  : static_cast<double>((int64_t{1} << (t.bits - 1)) - 1);
}

double lowest(ElemType elem) {
  const ElemInfo& t = info(elem);
  if (t.kind == ElemKind::Float) return -highest(elem);
  if (t.kind == ElemKind::UInt) return 0;
  return t.bits >= 64 ? -0x1p62 : -static_cast<double>(int64_t{1} << (t.bits - 1));
}

void require_dot(Type type, const std::vector<Expr>& args) {
  Type acc = args[0].type(), a = args[1].type(), b = args[2].type();
  bool numbers = true;
  for (Type t : {acc, a, b}) numbers &= is_float(t.elem) || is_integer(t.elem);
  require(numbers && acc == type && DotShape::of(acc, a, b).has_value(), [&] {
    return fmt::format(
        "dot: {} cannot be summed from {}, {} and {}: expected the type of the "
        "first, and lanes of the third as many as those of the others multiplied",
        to_string(type), to_string(acc), to_string(a), to_string(b));
  });
}

void require_lane_reduction(Type type, CallOp op, const std::vector<Expr>& args) {
  const Type first = args[0].type();
  bool fits = is_float(type.elem) || is_integer(type.elem);
  fits &=
      std::has_single_bit(args.size()) && std::has_single_bit(static_cast<unsigned>(first.lanes));
  fits &= type == first.with_lanes(static_cast<int>(args.size()));
  for (const Expr& a : args) fits &= a.type() == first;
  require(fits, [&] {
    return fmt::format(
        "{}: {} arguments, the first a {}, do not give {}: expected numbers of one type, a lane "
        "per "
        "argument, and powers of two",
        name_of(op), args.size(), to_string(first), to_string(type));
  });
}

}  // namespace

bool is_comparison(BinaryOp op) {
  return op == BinaryOp::EQ || op == BinaryOp::NE || op == BinaryOp::LT || op == BinaryOp::LE ||
         op == BinaryOp::GT || op == BinaryOp::GE;
}

Expr::Expr(int value) : Expr(static_cast<int64_t>(value)) {}
Expr::Expr(int64_t value) : Expr(make_int(ElemType::index, value)) {}

Var::Var(std::string name, Type type) : Expr(std::make_shared<VarNode>(std::move(name), type)) {}

Var::Var(const Expr& e) : Expr(e) {
  require(e.as<VarNode>() != nullptr, "a variable was expected");
}

const std::string& Var::name() const { return as<VarNode>()->name; }

Expr make_int(Type type, int64_t value) {
  bool ok = is_integer(type.elem) || type.elem == ElemType::boolean;
  require(ok,
          [&] { return fmt::format("an integer constant cannot have type {}", to_string(type)); });
  int64_t v = value;
  if (bits_of(type.elem) < 64)
    v = static_cast<int64_t>(round_to(type.elem, static_cast<double>(v)));
  Expr scalar(std::make_shared<IntImmNode>(type.with_lanes(1), v));
  return broadcast(scalar, type.lanes);
}

Expr make_float(Type type, double value) {
  require(is_float(type.elem),
          [&] { return fmt::format("a float constant cannot have type {}", to_string(type)); });
  Expr scalar(std::make_shared<FloatImmNode>(type.with_lanes(1), round_to(type.elem, value)));
  return broadcast(scalar, type.lanes);
}

Expr make_const(Type type, double value) {
  return is_float(type.elem) ? make_float(type, value)
                             : make_int(type, static_cast<int64_t>(value));
}

Expr make_bool(bool value) { return make_int(ElemType::boolean, value); }

Expr cast(Type type, Expr value) {
  require_defined(value, "cast", "value");
  if (type == value.type()) return value;
  if (value.type().lanes == 1 && type.lanes > 1) {
    return broadcast(cast(type.with_lanes(1), value), type.lanes);
  }
  require(type.lanes == value.type().lanes, [&] {
    return fmt::format("cast: {} lanes cannot become {}", value.type().lanes, type.lanes);
  });
  return Expr(std::make_shared<CastNode>(type, std::move(value)));
}

Expr unary(UnaryOp op, Expr a) {
  require_defined(a, "unary", "a");
  ElemType t = a.type().elem;
  bool ok = op == UnaryOp::Not                         ? t == ElemType::boolean
            : op == UnaryOp::Neg || op == UnaryOp::Abs ? t != ElemType::boolean
                                                       : is_float(t);
  require(ok, [&] { return fmt::format("'{}' does not take {}", name_of(op), info(t).name); });
  return Expr(std::make_shared<UnaryNode>(op, std::move(a)));
}

Expr binary(BinaryOp op, Expr a, Expr b) {
  require_defined(a, "binary", "a");
  require_defined(b, "binary", "b");
  match_lanes(a, b);
  require(a.type() == b.type(), [&] {
    return fmt::format("'{}' needs both sides of one type, got {} and {}: {} and {}", name_of(op),
                       to_string(a.type()), to_string(b.type()), to_string(a), to_string(b));
  });
  check_operator_type(op, a.type().elem);
  Type type = is_comparison(op) ? Type(ElemType::boolean, a.type().lanes) : a.type();
  return Expr(std::make_shared<BinaryNode>(type, op, std::move(a), std::move(b)));
}

Expr select(Expr cond, Expr on_true, Expr on_false) {
  require_defined(cond, "select", "cond");
  require_defined(on_true, "select", "on_true");
  require_defined(on_false, "select", "on_false");
  match_lanes(on_true, on_false);
  if (cond.type().lanes > 1) {
    on_true = broadcast(on_true, on_true.type().lanes == 1 ? cond.type().lanes : 1);
    on_false = broadcast(on_false, on_false.type().lanes == 1 ? cond.type().lanes : 1);
  }
  require(cond.type().elem == ElemType::boolean, [&] {
    return fmt::format("select: the condition has type {}, not bool", to_string(cond.type()));
  });
  require(on_true.type() == on_false.type(), [&] {
    return fmt::format("select: the sides have types {} and {}", to_string(on_true.type()),
                       to_string(on_false.type()));
  });
  require(cond.type().lanes == 1 || cond.type().lanes == on_true.type().lanes,
          "select: the condition's lanes do not match the sides'");
  return Expr(
      std::make_shared<SelectNode>(std::move(cond), std::move(on_true), std::move(on_false)));
}

Expr load(Buffer buffer, std::vector<Expr> indices, Expr predicate) {
  require(buffer != nullptr, "load: the buffer is undefined");
  require(static_cast<int>(indices.size()) == buffer->rank(), [&] {
    return fmt::format("load: '{}' has {} dimensions, got {} indices", buffer->name, buffer->rank(),
                       indices.size());
  });
  int lanes = predicate.defined() ? predicate.type().lanes : 1;
  for (const Expr& i : indices) {
    require_defined(i, "load", "index");
    require(i.type().elem == ElemType::index, [&] {
      return fmt::format("load: an index of '{}' has type {}, not index", buffer->name,
                         to_string(i.type()));
    });
    lanes = std::max(lanes, i.type().lanes);
  }
  Type type(buffer->elem, lanes);
  return Expr(std::make_shared<LoadNode>(type, std::move(buffer), std::move(indices),
                                         std::move(predicate)));
}

Expr ramp(Expr base, Expr stride, int lanes) {
  require_defined(base, "ramp", "base");
  require_defined(stride, "ramp", "stride");
  require(lanes > 1, [&] { return fmt::format("ramp: {} lanes; a ramp has at least 2", lanes); });
  require(base.type().is_scalar() && base.type() == stride.type(),
          "ramp: base and stride must be scalars of one type");
  return Expr(std::make_shared<RampNode>(std::move(base), std::move(stride), lanes));
}

Expr broadcast(Expr value, int lanes) {
  require_defined(value, "broadcast", "value");
  if (lanes == 1) return value;
  require(value.type().is_scalar(), "broadcast: the value is a vector already");
  return Expr(std::make_shared<BroadcastNode>(std::move(value), lanes));
}

Expr call(Type type, CallOp op, std::vector<Expr> args) {
  const CallRow& row = row_of(op);
  const size_t expected = row.count();
  const bool or_more = !row.rest.empty();
  require(args.size() == expected || (or_more && args.size() > expected), [&] {
    return fmt::format("{}: expected {} arguments{}, got {}", row.name, expected,
                       or_more ? " or more" : "", args.size());
  });
  for (size_t i = 0; i < args.size(); ++i) {
    require_defined(args[i], row.name, "argument");
    const bool is_named = access_of(op, i) != CallAccess::Value;
    require(!is_named || args[i].as<LoadNode>() != nullptr, [&] {
      return fmt::format("{}: operand '{}' names no element of an array", row.name,
                         row.operands[i].name);
    });
  }
  if (op == CallOp::Bitcast) {
    int from = bits_of(args[0].type().elem) * args[0].type().lanes;
    require(from == bits_of(type.elem) * type.lanes, [&] {
      return fmt::format("bitcast: {} and {} differ in width", to_string(args[0].type()),
                         to_string(type));
    });
  }
  if (op == CallOp::IfThenElse) require_choice(type, args);
  if (op == CallOp::Dot) require_dot(type, args);
  if (op == CallOp::LaneSum || op == CallOp::LaneMax) require_lane_reduction(type, op, args);
  return Expr(std::make_shared<CallNode>(type, op, std::move(args)));
}

Expr operator+(Expr a, Expr b) { return binary(BinaryOp::Add, std::move(a), std::move(b)); }
Expr operator-(Expr a, Expr b) { return binary(BinaryOp::Sub, std::move(a), std::move(b)); }
Expr operator*(Expr a, Expr b) { return binary(BinaryOp::Mul, std::move(a), std::move(b)); }
Expr operator/(Expr a, Expr b) { return binary(BinaryOp::Div, std::move(a), std::move(b)); }
Expr operator-(Expr a) { return unary(UnaryOp::Neg, std::move(a)); }
Expr operator!(Expr a) { return unary(UnaryOp::Not, std::move(a)); }
Expr operator&&(Expr a, Expr b) { return binary(BinaryOp::And, std::move(a), std::move(b)); }
Expr operator||(Expr a, Expr b) { return binary(BinaryOp::Or, std::move(a), std::move(b)); }
Expr operator<(Expr a, Expr b) { return binary(BinaryOp::LT, std::move(a), std::move(b)); }
Expr operator<=(Expr a, Expr b) { return binary(BinaryOp::LE, std::move(a), std::move(b)); }
Expr operator>(Expr a, Expr b) { return binary(BinaryOp::GT, std::move(a), std::move(b)); }
Expr operator>=(Expr a, Expr b) { return binary(BinaryOp::GE, std::move(a), std::move(b)); }
Expr floordiv(Expr a, Expr b) { return binary(BinaryOp::FloorDiv, std::move(a), std::move(b)); }
Expr floormod(Expr a, Expr b) { return binary(BinaryOp::FloorMod, std::move(a), std::move(b)); }
Expr min(Expr a, Expr b) { return binary(BinaryOp::Min, std::move(a), std::move(b)); }
Expr max(Expr a, Expr b) { return binary(BinaryOp::Max, std::move(a), std::move(b)); }
Expr eq(Expr a, Expr b) { return binary(BinaryOp::EQ, std::move(a), std::move(b)); }
Expr ne(Expr a, Expr b) { return binary(BinaryOp::NE, std::move(a), std::move(b)); }

std::optional<int64_t> as_int(const Expr& e) {
  if (auto* n = e.as<IntImmNode>()) return n->value;
  return std::nullopt;
}

bool is_int(const Expr& e, int64_t value) {
  auto* n = e.as<IntImmNode>();
  return n != nullptr && n->value == value;
}

Expr identity_of(Reducer reducer, Type type) {
  switch (reducer) {
    case Reducer::Max: return make_const(type, lowest(type.elem));
    case Reducer::Min: return make_const(type, highest(type.elem));
    case Reducer::Sum:
    case Reducer::None: break;
  }
  return make_const(type, 0);
}

Expr combine(Reducer reducer, Expr a, Expr b) {
  switch (reducer) {
    case Reducer::Sum: return a + b;
    case Reducer::Max: return max(a, b);
    case Reducer::Min: return min(a, b);
    case Reducer::None: break;
  }
  throw IrError("combine: there is no reduction to combine values with");
}

std::string_view name_of(UnaryOp op) {
  switch (op) {
    case UnaryOp::Neg: return "-";
    case UnaryOp::Not: return "!";
    case UnaryOp::Exp: return "exp";
    case UnaryOp::Log: return "log";
    case UnaryOp::Sqrt: return "sqrt";
    case UnaryOp::Rsqrt: return "rsqrt";
    case UnaryOp::Tanh: return "tanh";
    case UnaryOp::Erf: return "erf";
    case UnaryOp::Abs: return "abs";
    case UnaryOp::Floor: return "floor";
    case UnaryOp::Round: return "round";
  }
  return "";
}

std::string_view name_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add: return "+";
    case BinaryOp::Sub: return "-";
    case BinaryOp::Mul: return "*";
    case BinaryOp::Div: return "/";
    case BinaryOp::FloorDiv: return "floordiv";
    case BinaryOp::FloorMod: return "floormod";
    case BinaryOp::Min: return "min";
    case BinaryOp::Max: return "max";
    case BinaryOp::And: return "&&";
    case BinaryOp::Or: return "||";
    case BinaryOp::EQ: return "==";
    case BinaryOp::NE: return "!=";
    case BinaryOp::LT: return "<";
    case BinaryOp::LE: return "<=";
    case BinaryOp::GT: return ">";
    case BinaryOp::GE: return ">=";
  }
  return "";
}

std::string_view name_of(Reducer reducer) {
  switch (reducer) {
    case Reducer::None: return "none";
    case Reducer::Sum: return "sum";
    case Reducer::Max: return "max";
    case Reducer::Min: return "min";
  }
  return "";
}

}  // namespace tilewright
