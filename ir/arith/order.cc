#include "ir/arith/order.h"

#include <bit>

#include "ir/buffer.h"

namespace tilewright::arith {
namespace {

template <class T>
int three_way(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

// Variables come first, constants last.
int rank(ExprKind kind) {
  if (kind == ExprKind::Var) return 0;
  if (kind == ExprKind::IntImm || kind == ExprKind::FloatImm) return 100 + static_cast<int>(kind);
  return 1 + static_cast<int>(kind);
}

int order_all(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (int c = three_way(a.size(), b.size())) return c;
  for (size_t i = 0; i < a.size(); ++i) {
    if (int c = order(a[i], b[i])) return c;
  }
  return 0;
}

bool all_identical(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!identical(a[i], b[i])) return false;
  }
  return true;
}

int order_type(Type a, Type b) {
  if (int c = three_way(static_cast<int>(a.elem), static_cast<int>(b.elem))) return c;
  return three_way(a.lanes, b.lanes);
}

int order_load(const LoadNode& a, const LoadNode& b) {
  if (int c = a.buffer->name.compare(b.buffer->name)) return c;
  if (int c = order_all(a.indices, b.indices)) return c;
  return order(a.predicate, b.predicate);
}

// Requires the same kind and type.
int order_same_kind(const Expr& a, const Expr& b) {
  switch (a.kind()) {
    case ExprKind::IntImm: return three_way(a.as<IntImmNode>()->value, b.as<IntImmNode>()->value);
    case ExprKind::FloatImm:
      return three_way(std::bit_cast<uint64_t>(a.as<FloatImmNode>()->value),
                       std::bit_cast<uint64_t>(b.as<FloatImmNode>()->value));
    case ExprKind::Var: return a.as<VarNode>()->name.compare(b.as<VarNode>()->name);
    case ExprKind::Cast: return order(a.as<CastNode>()->value, b.as<CastNode>()->value);
    case ExprKind::Unary: {
      auto *x = a.as<UnaryNode>(), *y = b.as<UnaryNode>();
      if (int c = three_way(x->op, y->op)) return c;
      return order(x->a, y->a);
    }
    case ExprKind::Binary: {
      auto *x = a.as<BinaryNode>(), *y = b.as<BinaryNode>();
      if (int c = three_way(x->op, y->op)) return c;
      if (int c = order(x->a, y->a)) return c;
      return order(x->b, y->b);
    }
    case ExprKind::Select: {
      auto *x = a.as<SelectNode>(), *y = b.as<SelectNode>();
      if (int c = order(x->cond, y->cond)) return c;
      if (int c = order(x->on_true, y->on_true)) return c;
      return order(x->on_false, y->on_false);
    }
    case ExprKind::Load: return order_load(*a.as<LoadNode>(), *b.as<LoadNode>());
    case ExprKind::Ramp: {
      auto *x = a.as<RampNode>(), *y = b.as<RampNode>();
      if (int c = order(x->base, y->base)) return c;
      return order(x->stride, y->stride);
    }
    case ExprKind::Broadcast:
      return order(a.as<BroadcastNode>()->value, b.as<BroadcastNode>()->value);
    case ExprKind::Call: {
      auto *x = a.as<CallNode>(), *y = b.as<CallNode>();
      if (int c = three_way(x->op, y->op)) return c;
      return order_all(x->args, y->args);
    }
  }
  return 0;
}

// Requires the same kind and type, and two different nodes.
bool identical_same_kind(const Expr& a, const Expr& b) {
  switch (a.kind()) {
    case ExprKind::IntImm: return a.as<IntImmNode>()->value == b.as<IntImmNode>()->value;
    case ExprKind::FloatImm:
      return std::bit_cast<uint64_t>(a.as<FloatImmNode>()->value) ==
             std::bit_cast<uint64_t>(b.as<FloatImmNode>()->value);
    case ExprKind::Var: return false;
    case ExprKind::Cast: return identical(a.as<CastNode>()->value, b.as<CastNode>()->value);
    case ExprKind::Unary: {
      auto *x = a.as<UnaryNode>(), *y = b.as<UnaryNode>();
      return x->op == y->op && identical(x->a, y->a);
    }
    case ExprKind::Binary: {
      auto *x = a.as<BinaryNode>(), *y = b.as<BinaryNode>();
      return x->op == y->op && identical(x->a, y->a) && identical(x->b, y->b);
    }
    case ExprKind::Select: {
      auto *x = a.as<SelectNode>(), *y = b.as<SelectNode>();
      return identical(x->cond, y->cond) && identical(x->on_true, y->on_true) &&
             identical(x->on_false, y->on_false);
    }
    case ExprKind::Load: {
      auto *x = a.as<LoadNode>(), *y = b.as<LoadNode>();
      return x->buffer == y->buffer && all_identical(x->indices, y->indices) &&
             identical(x->predicate, y->predicate);
    }
    case ExprKind::Ramp: {
      auto *x = a.as<RampNode>(), *y = b.as<RampNode>();
      return identical(x->base, y->base) && identical(x->stride, y->stride);
    }
    case ExprKind::Broadcast:
      return identical(a.as<BroadcastNode>()->value, b.as<BroadcastNode>()->value);
    case ExprKind::Call: {
      auto *x = a.as<CallNode>(), *y = b.as<CallNode>();
      return x->op == y->op && all_identical(x->args, y->args);
    }
  }
  return false;
}

}  // namespace

int order(const Expr& a, const Expr& b) {
  if (a.same_as(b)) return 0;
  if (!a.defined() || !b.defined()) return a.defined() ? 1 : -1;
  if (int c = three_way(rank(a.kind()), rank(b.kind()))) return c;
  if (int c = order_type(a.type(), b.type())) return c;
  return order_same_kind(a, b);
}

bool identical(const Expr& a, const Expr& b) {
  if (a.same_as(b)) return true;
  if (!a.defined() || !b.defined()) return false;
  return a.kind() == b.kind() && a.type() == b.type() && identical_same_kind(a, b);
}

}  // namespace tilewright::arith
