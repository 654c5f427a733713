#include "codegen/passes/guards.h"

namespace tilewright {

bool carries_reduction(const Expr& var, const Stmt& body) {
  bool found = false;
  for_each_stmt(body, [&](const Stmt& s) {
    auto* store = s.as<StoreNode>();
    if (!store) return;
    for (const Expr& i : store->indices) {
      if (uses_var(i, var)) return;
    }
    found = true;
  });
  return found;
}

Expr below_zero(const Expr& comparison) {
  auto* n = comparison.as<BinaryNode>();
  if (!n || n->a.type() != Type(ElemType::index)) return {};
  switch (n->op) {
    case BinaryOp::LT: return n->a - n->b;
    case BinaryOp::LE: return n->a - n->b - 1;
    case BinaryOp::GT: return n->b - n->a;
    case BinaryOp::GE: return n->b - n->a - 1;
    default: return {};
  }
}

}  // namespace tilewright
