#include "tuner/index_value.h"

#include <algorithm>

#include "ir/oracle/oracle_math.h"

namespace tilewright {
using oracle::floor_div;

int64_t IndexValues::of_variable(const VarNode& n, int lane) const {
  if (auto value = values_.find(&n); value != values_.end()) return value->second;
  auto defined = defined_.find(&n);
  return defined == defined_.end() ? 0 : at(defined->second, lane);
}

int64_t IndexValues::binary(const BinaryNode& n, int lane) const {
  const int64_t a = at(n.a, lane), b = at(n.b, lane);
  switch (n.op) {
    case BinaryOp::Add: return a + b;
    case BinaryOp::Sub: return a - b;
    case BinaryOp::Mul: return a * b;
    case BinaryOp::Div:
    case BinaryOp::FloorDiv: return floor_div(a, b);
    case BinaryOp::FloorMod: return a - floor_div(a, b) * b;
    case BinaryOp::Min: return std::min(a, b);
    case BinaryOp::Max: return std::max(a, b);
    case BinaryOp::And: return a != 0 && b != 0;
    case BinaryOp::Or: return a != 0 || b != 0;
    case BinaryOp::EQ: return a == b;
    case BinaryOp::NE: return a != b;
    case BinaryOp::LT: return a < b;
    case BinaryOp::LE: return a <= b;
    case BinaryOp::GT: return a > b;
    case BinaryOp::GE: return a >= b;
  }
  return 0;
}

int64_t IndexValues::at(const Expr& e, int lane) const {
  switch (e.kind()) {
    case ExprKind::IntImm: return e.as<IntImmNode>()->value;
    case ExprKind::Var: return of_variable(*e.as<VarNode>(), lane);
    case ExprKind::Cast: return at(e.as<CastNode>()->value, lane);
    case ExprKind::Binary: return binary(*e.as<BinaryNode>(), lane);
    case ExprKind::Broadcast: return at(e.as<BroadcastNode>()->value, 0);
    case ExprKind::Ramp: {
      auto* n = e.as<RampNode>();
      return at(n->base, 0) + lane * at(n->stride, 0);
    }
    case ExprKind::Unary: {
      auto* n = e.as<UnaryNode>();
      if (n->op == UnaryOp::Neg) return -at(n->a, lane);
      return n->op == UnaryOp::Not && at(n->a, lane) == 0 ? 1 : 0;
    }
    case ExprKind::Select: {
      auto* n = e.as<SelectNode>();
      return at(n->cond, lane) != 0 ? at(n->on_true, lane) : at(n->on_false, lane);
    }
    case ExprKind::Call: {
      auto* n = e.as<CallNode>();
      if (n->op != CallOp::IfThenElse) return 0;
      return at(n->args[0], lane) != 0 ? at(n->args[1], lane) : at(n->args[2], lane);
    }
    case ExprKind::FloatImm:
    case ExprKind::Load: return 0;
  }
  return 0;
}

}  // namespace tilewright
