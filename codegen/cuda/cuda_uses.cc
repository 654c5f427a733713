#include "codegen/cuda/cuda_uses.h"

#include "ir/call_table.h"
#include "ir/visitor.h"

namespace tilewright {

Uses uses_of(const Stmt& kernel) {
  Uses uses;
  std::set<const ExprNode*> named;
  for_each_expr(kernel, [&](const Expr& e) {
    auto* c = e.as<CallNode>();
    for (size_t a = 0; c && a < c->args.size(); ++a) {
      const CallAccess access = access_of(c->op, a);
      uses.boxes_loaded |= access == CallAccess::Write;
      uses.boxes_stored |= access == CallAccess::MapWrite;
      if (access == CallAccess::MapRead || access == CallAccess::MapWrite)
        named.insert(c->args[a].get());
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
