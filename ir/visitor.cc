#include "ir/visitor.h"

namespace tilewright {

void Visitor::visit(const Expr& e) {
  if (!e.defined()) return;
  switch (e.kind()) {
    case ExprKind::IntImm: return visit_int(*e.as<IntImmNode>());
    case ExprKind::FloatImm: return visit_float(*e.as<FloatImmNode>());
    case ExprKind::Var: return visit_var(*e.as<VarNode>());
    case ExprKind::Cast: return visit_cast(*e.as<CastNode>());
    case ExprKind::Unary: return visit_unary(*e.as<UnaryNode>());
    case ExprKind::Binary: return visit_binary(*e.as<BinaryNode>());
    case ExprKind::Select: return visit_select(*e.as<SelectNode>());
    case ExprKind::Load: return visit_load(*e.as<LoadNode>());
    case ExprKind::Ramp: return visit_ramp(*e.as<RampNode>());
    case ExprKind::Broadcast: return visit_broadcast(*e.as<BroadcastNode>());
    case ExprKind::Call: return visit_call(*e.as<CallNode>());
  }
}

void Visitor::visit(const Stmt& s) {
  if (!s.defined()) return;
  switch (s.kind()) {
    case StmtKind::For: return visit_for(*s.as<ForNode>());
    case StmtKind::Block: return visit_block(*s.as<BlockNode>());
    case StmtKind::Store: return visit_store(*s.as<StoreNode>());
    case StmtKind::If: return visit_if(*s.as<IfNode>());
    case StmtKind::Seq: return visit_seq(*s.as<SeqNode>());
    case StmtKind::Evaluate: return visit_evaluate(*s.as<EvaluateNode>());
    case StmtKind::Let: return visit_let(*s.as<LetNode>());
    case StmtKind::Allocate: return visit_allocate(*s.as<AllocateNode>());
  }
}

void Visitor::visit_cast(const CastNode& n) { visit(n.value); }
void Visitor::visit_unary(const UnaryNode& n) { visit(n.a); }
void Visitor::visit_binary(const BinaryNode& n) {
  visit(n.a);
  visit(n.b);
}
void Visitor::visit_select(const SelectNode& n) {
  visit(n.cond);
  visit(n.on_true);
  visit(n.on_false);
}
void Visitor::visit_load(const LoadNode& n) {
  for (const Expr& i : n.indices) visit(i);
  visit(n.predicate);
}
void Visitor::visit_ramp(const RampNode& n) {
  visit(n.base);
  visit(n.stride);
}
void Visitor::visit_broadcast(const BroadcastNode& n) { visit(n.value); }
void Visitor::visit_call(const CallNode& n) {
  for (const Expr& a : n.args) visit(a);
}

void Visitor::visit_for(const ForNode& n) {
  visit(n.min);
  visit(n.extent);
  visit(n.body);
}
void Visitor::visit_block(const BlockNode& n) {
  for (const IterVar& iter : n.iters) {
    visit(iter.extent);
    visit(iter.binding);
  }
  visit(n.predicate);
  visit(n.init);
  visit(n.body);
}
void Visitor::visit_store(const StoreNode& n) {
  for (const Expr& i : n.indices) visit(i);
  visit(n.predicate);
  visit(n.value);
}
void Visitor::visit_if(const IfNode& n) {
  visit(n.cond);
  visit(n.then_case);
  visit(n.else_case);
}
void Visitor::visit_seq(const SeqNode& n) {
  for (const Stmt& s : n.stmts) visit(s);
}
void Visitor::visit_evaluate(const EvaluateNode& n) { visit(n.value); }
void Visitor::visit_let(const LetNode& n) {
  visit(n.value);
  visit(n.body);
}
void Visitor::visit_allocate(const AllocateNode& n) { visit(n.body); }

Expr Mutator::mutate(const Expr& e) {
  if (!e.defined()) return e;
  switch (e.kind()) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm: return e;
    case ExprKind::Var: return mutate_var(*e.as<VarNode>(), e);
    case ExprKind::Cast: return mutate_cast(*e.as<CastNode>(), e);
    case ExprKind::Unary: return mutate_unary(*e.as<UnaryNode>(), e);
    case ExprKind::Binary: return mutate_binary(*e.as<BinaryNode>(), e);
    case ExprKind::Select: return mutate_select(*e.as<SelectNode>(), e);
    case ExprKind::Load: return mutate_load(*e.as<LoadNode>(), e);
    case ExprKind::Ramp: return mutate_ramp(*e.as<RampNode>(), e);
    case ExprKind::Broadcast: return mutate_broadcast(*e.as<BroadcastNode>(), e);
    case ExprKind::Call: return mutate_call(*e.as<CallNode>(), e);
  }
  return e;
}

Stmt Mutator::mutate(const Stmt& s) {
  if (!s.defined()) return s;
  switch (s.kind()) {
    case StmtKind::For: return mutate_for(*s.as<ForNode>(), s);
    case StmtKind::Block: return mutate_block(*s.as<BlockNode>(), s);
    case StmtKind::Store: return mutate_store(*s.as<StoreNode>(), s);
    case StmtKind::If: return mutate_if(*s.as<IfNode>(), s);
    case StmtKind::Seq: return mutate_seq(*s.as<SeqNode>(), s);
    case StmtKind::Evaluate: return mutate_evaluate(*s.as<EvaluateNode>(), s);
    case StmtKind::Let: return mutate_let(*s.as<LetNode>(), s);
    case StmtKind::Allocate: return mutate_allocate(*s.as<AllocateNode>(), s);
  }
  return s;
}

std::vector<Expr> Mutator::mutate_all(const std::vector<Expr>& list, bool* changed) {
  std::vector<Expr> result;
  result.reserve(list.size());
  for (const Expr& e : list) {
    result.push_back(mutate(e));
    *changed |= !result.back().same_as(e);
  }
  return result;
}

Expr Mutator::mutate_var(const VarNode&, const Expr& e) { return e; }
Expr Mutator::mutate_cast(const CastNode& n, const Expr& e) {
  Expr value = mutate(n.value);
  return value.same_as(n.value) ? e : cast(n.type.with_lanes(value.type().lanes), value);
}
Expr Mutator::mutate_unary(const UnaryNode& n, const Expr& e) {
  Expr a = mutate(n.a);
  return a.same_as(n.a) ? e : unary(n.op, a);
}
Expr Mutator::mutate_binary(const BinaryNode& n, const Expr& e) {
  Expr a = mutate(n.a), b = mutate(n.b);
  return a.same_as(n.a) && b.same_as(n.b) ? e : binary(n.op, a, b);
}
Expr Mutator::mutate_select(const SelectNode& n, const Expr& e) {
  Expr c = mutate(n.cond), t = mutate(n.on_true), f = mutate(n.on_false);
  bool same = c.same_as(n.cond) && t.same_as(n.on_true) && f.same_as(n.on_false);
  return same ? e : select(c, t, f);
}
Expr Mutator::mutate_load(const LoadNode& n, const Expr& e) {
  Buffer buffer = mutate_buffer(n.buffer);
  bool changed = buffer != n.buffer;
  std::vector<Expr> indices = mutate_all(n.indices, &changed);
  Expr predicate = mutate(n.predicate);
  changed |= !predicate.same_as(n.predicate);
  return changed ? load(buffer, std::move(indices), predicate) : e;
}
Expr Mutator::mutate_ramp(const RampNode& n, const Expr& e) {
  Expr base = mutate(n.base), stride = mutate(n.stride);
  return base.same_as(n.base) && stride.same_as(n.stride) ? e : ramp(base, stride, n.type.lanes);
}
Expr Mutator::mutate_broadcast(const BroadcastNode& n, const Expr& e) {
  Expr value = mutate(n.value);
  return value.same_as(n.value) ? e : broadcast(value, n.type.lanes);
}
Expr Mutator::mutate_call(const CallNode& n, const Expr& e) {
  bool changed = false;
  std::vector<Expr> args = mutate_all(n.args, &changed);
  return changed ? call(n.type, n.op, std::move(args)) : e;
}

Stmt Mutator::mutate_for(const ForNode& n, const Stmt& s) {
  Expr min = mutate(n.min), extent = mutate(n.extent);
  Stmt body = mutate(n.body);
  if (min.same_as(n.min) && extent.same_as(n.extent) && body.same_as(n.body)) return s;
  if (!body.defined()) return body;
  return make_for(n.var, min, extent, n.for_kind, body, n.annotations);
}
Stmt Mutator::mutate_block(const BlockNode& n, const Stmt& s) {
  bool changed = false;
  std::vector<IterVar> iters;
  for (const IterVar& iter : n.iters) {
    Expr extent = mutate(iter.extent), binding = mutate(iter.binding);
    changed |= !extent.same_as(iter.extent) || !binding.same_as(iter.binding);
    iters.push_back({iter.var, extent, iter.kind, binding});
  }
  Expr predicate = mutate(n.predicate);
  std::vector<Buffer> allocs;
  for (const Buffer& b : n.allocs) {
    allocs.push_back(mutate_buffer(b));
    changed |= allocs.back() != b;
  }
  Stmt init = mutate(n.init), body = mutate(n.body);
  changed |= !predicate.same_as(n.predicate) || !init.same_as(n.init) || !body.same_as(n.body);
  if (!changed) return s;
  if (!body.defined()) return body;
  return make_block(n.name, std::move(iters), body, init, predicate, std::move(allocs),
                    n.annotations);
}
Stmt Mutator::mutate_store(const StoreNode& n, const Stmt& s) {
  Buffer buffer = mutate_buffer(n.buffer);
  bool changed = buffer != n.buffer;
  std::vector<Expr> indices = mutate_all(n.indices, &changed);
  Expr value = mutate(n.value), predicate = mutate(n.predicate);
  changed |= !value.same_as(n.value) || !predicate.same_as(n.predicate);
  return changed ? make_store(buffer, std::move(indices), value, predicate, n.is_async) : s;
}
Stmt Mutator::mutate_if(const IfNode& n, const Stmt& s) {
  Expr cond = mutate(n.cond);
  Stmt then_case = mutate(n.then_case), else_case = mutate(n.else_case);
  bool same =
      cond.same_as(n.cond) && then_case.same_as(n.then_case) && else_case.same_as(n.else_case);
  if (same) return s;
  if (!then_case.defined()) return else_case.defined() ? make_if(!cond, else_case) : Stmt();
  return make_if(cond, then_case, else_case);
}
Stmt Mutator::mutate_seq(const SeqNode& n, const Stmt& s) {
  bool changed = false;
  std::vector<Stmt> stmts;
  for (const Stmt& child : n.stmts) {
    stmts.push_back(mutate(child));
    changed |= !stmts.back().same_as(child);
  }
  return changed ? make_seq(std::move(stmts)) : s;
}
Stmt Mutator::mutate_evaluate(const EvaluateNode& n, const Stmt& s) {
  Expr value = mutate(n.value);
  return value.same_as(n.value) ? s : make_evaluate(value);
}
Stmt Mutator::mutate_let(const LetNode& n, const Stmt& s) {
  Expr value = mutate(n.value);
  Stmt body = mutate(n.body);
  if (value.same_as(n.value) && body.same_as(n.body)) return s;
  return body.defined() ? make_let(n.var, value, body) : body;
}
Stmt Mutator::mutate_allocate(const AllocateNode& n, const Stmt& s) {
  Buffer buffer = mutate_buffer(n.buffer);
  Stmt body = mutate(n.body);
  if (buffer == n.buffer && body.same_as(n.body)) return s;
  return body.defined() ? make_allocate(buffer, body) : body;
}

namespace {

class Substituter : public Mutator {
 public:
  explicit Substituter(const VarMap& map) : map_(map) {}

 protected:
  Expr mutate_var(const VarNode& n, const Expr& e) override {
    auto it = map_.find(&n);
    return it == map_.end() ? e : it->second;
  }

 private:
  const VarMap& map_;
};

class BufferReplacer : public Mutator {
 public:
  explicit BufferReplacer(const BufferMap& map) : map_(map) {}

 protected:
  Buffer mutate_buffer(const Buffer& b) override {
    auto it = map_.find(b.get());
    return it == map_.end() ? b : it->second;
  }

 private:
  const BufferMap& map_;
};

class EachExpr : public Visitor {
 public:
  explicit EachExpr(const std::function<void(const Expr&)>& fn) : fn_(fn) {}

 protected:
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (!e.defined()) return;
    fn_(e);
    Visitor::visit(e);
  }

 private:
  const std::function<void(const Expr&)>& fn_;
};

class EachStmt : public Visitor {
 public:
  explicit EachStmt(const std::function<void(const Stmt&)>& fn) : fn_(fn) {}

 protected:
  void visit(const Expr&) override {}
  void visit(const Stmt& s) override {
    if (!s.defined()) return;
    fn_(s);
    Visitor::visit(s);
  }

 private:
  const std::function<void(const Stmt&)>& fn_;
};

}  // namespace

Expr substitute(const Expr& e, const VarMap& map) { return Substituter(map)(e); }
Stmt substitute(const Stmt& s, const VarMap& map) { return Substituter(map)(s); }
Stmt replace_buffers(const Stmt& s, const BufferMap& map) { return BufferReplacer(map)(s); }
Expr replace_buffers(const Expr& e, const BufferMap& map) { return BufferReplacer(map)(e); }
void for_each_expr(const Expr& e, const std::function<void(const Expr&)>& fn) { EachExpr{fn}(e); }
void for_each_expr(const Stmt& s, const std::function<void(const Expr&)>& fn) { EachExpr{fn}(s); }
void for_each_stmt(const Stmt& s, const std::function<void(const Stmt&)>& fn) { EachStmt{fn}(s); }

bool uses_var(const Expr& e, const Expr& var) {
  bool found = false;
  for_each_expr(e, [&](const Expr& x) { found |= x.same_as(var); });
  return found;
}

}  // namespace tilewright
