#include "codegen/cuda/cuda_uses.h"

#include "codegen/cuda/cuda_async_op.h"
#include "ir/visitor.h"

namespace tilewright {

Uses uses_of(const Stmt& kernel) {
  Uses uses;
  std::set<const ExprNode*> named;
  for_each_expr(kernel, [&](const Expr& e) {
    if (auto op = async_op(e); op && op->operand) {
      (op->kind == AsyncOp::Kind::Load ? uses.boxes_loaded : uses.boxes_stored) = true;
      named.insert(e.as<CallNode>()->args[1].get());
    } else if (op && op->kind == AsyncOp::Kind::LoadBytes) {
      uses.boxes_loaded = true;
    }
    auto* n = e.as<LoadNode>();
    if (n && named.count(n) == 0) uses.read.insert(n->buffer.get());
  });
  for_each_stmt(kernel, [&](const Stmt& s) {
    if (auto* n = s.as<StoreNode>()) uses.written.insert(n->buffer.get());
  });
  return uses;
}

}  // namespace tilewright
