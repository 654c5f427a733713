// Visitors and mutators over expressions and statements. The dispatch switches have no default, so
// a new node kind does not compile until each switch handles it.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "ir/stmt.h"

namespace tilewright {

// Calls one function per node kind; each default visits the children in evaluation order.
class Visitor {
 public:
  virtual ~Visitor() = default;
  void operator()(const Expr& e) { visit(e); }
  void operator()(const Stmt& s) { visit(s); }

 protected:
  virtual void visit(const Expr& e);  // undefined handles are skipped
  virtual void visit(const Stmt& s);

  virtual void visit_int(const IntImmNode&) {}
  virtual void visit_float(const FloatImmNode&) {}
  virtual void visit_var(const VarNode&) {}
  virtual void visit_cast(const CastNode& n);
  virtual void visit_unary(const UnaryNode& n);
  virtual void visit_binary(const BinaryNode& n);
  virtual void visit_select(const SelectNode& n);
  virtual void visit_load(const LoadNode& n);
  virtual void visit_ramp(const RampNode& n);
  virtual void visit_broadcast(const BroadcastNode& n);
  virtual void visit_call(const CallNode& n);

  virtual void visit_for(const ForNode& n);
  virtual void visit_block(const BlockNode& n);
  virtual void visit_store(const StoreNode& n);
  virtual void visit_if(const IfNode& n);
  virtual void visit_seq(const SeqNode& n);
  virtual void visit_evaluate(const EvaluateNode& n);
  virtual void visit_let(const LetNode& n);
  virtual void visit_allocate(const AllocateNode& n);
};

// Rebuilds bottom up. A node whose children did not change is returned as the same node. Overrides
// get the handle beside the node, to return it unchanged.
class Mutator {
 public:
  virtual ~Mutator() = default;
  Expr operator()(const Expr& e) { return mutate(e); }
  Stmt operator()(const Stmt& s) { return mutate(s); }

 protected:
  virtual Expr mutate(const Expr& e);  // undefined handles stay undefined
  virtual Stmt mutate(const Stmt& s);
  // Maps buffers at their uses (loads, stores, allocations); the default keeps them.
  virtual Buffer mutate_buffer(const Buffer& b) { return b; }

  virtual Expr mutate_var(const VarNode& n, const Expr& e);
  virtual Expr mutate_cast(const CastNode& n, const Expr& e);
  virtual Expr mutate_unary(const UnaryNode& n, const Expr& e);
  virtual Expr mutate_binary(const BinaryNode& n, const Expr& e);
  virtual Expr mutate_select(const SelectNode& n, const Expr& e);
  virtual Expr mutate_load(const LoadNode& n, const Expr& e);
  virtual Expr mutate_ramp(const RampNode& n, const Expr& e);
  virtual Expr mutate_broadcast(const BroadcastNode& n, const Expr& e);
  virtual Expr mutate_call(const CallNode& n, const Expr& e);

  virtual Stmt mutate_for(const ForNode& n, const Stmt& s);
  virtual Stmt mutate_block(const BlockNode& n, const Stmt& s);
  virtual Stmt mutate_store(const StoreNode& n, const Stmt& s);
  virtual Stmt mutate_if(const IfNode& n, const Stmt& s);
  virtual Stmt mutate_seq(const SeqNode& n, const Stmt& s);
  virtual Stmt mutate_evaluate(const EvaluateNode& n, const Stmt& s);
  virtual Stmt mutate_let(const LetNode& n, const Stmt& s);
  virtual Stmt mutate_allocate(const AllocateNode& n, const Stmt& s);

  std::vector<Expr> mutate_all(const std::vector<Expr>& list, bool* changed);
};

// Keyed by node identity.
using VarMap = std::map<const ExprNode*, Expr>;
using BufferMap = std::map<const BufferNode*, Buffer>;

Expr substitute(const Expr& e, const VarMap& map);
Stmt substitute(const Stmt& s, const VarMap& map);
Stmt replace_buffers(const Stmt& s, const BufferMap& map);
Expr replace_buffers(const Expr& e, const BufferMap& map);
// Visits every node, parents first.
void for_each_expr(const Expr& e, const std::function<void(const Expr&)>& fn);
void for_each_expr(const Stmt& s, const std::function<void(const Expr&)>& fn);
void for_each_stmt(const Stmt& s, const std::function<void(const Stmt&)>& fn);
bool uses_var(const Expr& e, const Expr& var);

}  // namespace tilewright
