#include "codegen/c/c_variables.h"

#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {

bool holds_parallel(const Stmt& s) {
  bool found = false;
  for_each_stmt(s, [&](const Stmt& x) {
    auto* loop = x.as<ForNode>();
    found |= loop && loop->for_kind == ForKind::Parallel;
  });
  return found;
}

std::map<int64_t, int> as_variables(const Buffer& buffer, const Stmt& body) {
  std::map<int64_t, int> slots;
  bool ok = !holds_parallel(body);
  auto use = [&](const Buffer& b, const Expr& index) {
    if (b != buffer || !ok) return;
    auto* r = index.as<RampNode>();
    auto base = as_int(r ? r->base : index);
    int lanes = index.type().lanes;
    if (!base || (r && !is_int(r->stride, 1)) || (!r && lanes > 1)) {
      ok = false;
      return;
    }
    auto [it, added] = slots.emplace(*base, lanes);
    ok &= added || it->second == lanes;
  };
  for_each_expr(body, [&](const Expr& e) {
    if (auto* n = e.as<LoadNode>()) use(n->buffer, n->indices[0]);
  });
  for_each_stmt(body, [&](const Stmt& s) {
    if (auto* n = s.as<StoreNode>()) use(n->buffer, n->indices[0]);
  });
  int64_t end = INT64_MIN;
  for (auto [base, lanes] : slots) {
    ok &= base >= end;
    end = base + lanes;
  }
  return ok && slots.size() <= 256 ? slots : std::map<int64_t, int>{};
}

bool stored_in_part(const Buffer& buffer, const Stmt& body) {
  bool found = false;
  for_each_stmt(body, [&](const Stmt& s) {
    auto* n = s.as<StoreNode>();
    found |= n && n->buffer == buffer && n->predicate.defined();
  });
  return found;
}

bool is_dot_operand(const Buffer& buffer, const Stmt& body) {
  bool found = false;
  for_each_expr(body, [&](const Expr& e) {
    auto* n = e.as<CallNode>();
    if (!n || n->op != CallOp::Dot) return;
    for (size_t i : {1, 2}) {
      auto* load = n->args[i].as<LoadNode>();
      found |= load && load->buffer == buffer;
    }
  });
  return found;
}

}  // namespace tilewright
