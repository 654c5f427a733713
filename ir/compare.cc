#include "ir/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

namespace tilewright {
namespace {

// Maps the left side's variables and buffers to the right side's. Both directions are kept, so that
// two variables never become one.
template <class Node>
class Renaming {
 public:
  void bind(const Node* a, const Node* b) {
    left_[a] = b;
    right_[b] = a;
  }
  bool knows(const Node* a, const Node* b) const { return left_.count(a) || right_.count(b); }
  bool same(const Node* a, const Node* b) const {
    auto l = left_.find(a);
    auto r = right_.find(b);
    if (l == left_.end() && r == right_.end()) return a == b;
    return l != left_.end() && r != right_.end() && l->second == b && r->second == a;
  }

 private:
  std::map<const Node*, const Node*> left_, right_;
};

class Comparer {
 public:
  // With `rename`, buffers that agree in name, type, shape and scope may stand for each other.
  explicit Comparer(bool rename) : rename_(rename) {}

  bool exprs(const Expr& a, const Expr& b);
  bool stmts(const Stmt& a, const Stmt& b);
  bool programs(const Program& a, const Program& b);

 private:
  bool lists(const std::vector<Expr>& a, const std::vector<Expr>& b);
  bool buffers(const Buffer& a, const Buffer& b);
  bool for_stmts(const ForNode& a, const ForNode& b);
  bool blocks(const BlockNode& a, const BlockNode& b);
  bool stores(const StoreNode& a, const StoreNode& b);
  bool bind(const Var& a, const Var& b);

  bool rename_;
  Renaming<ExprNode> vars_;
  Renaming<BufferNode> buffers_;
};

// A zero differs from a negative zero, and a NaN equals itself.
bool same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

bool Comparer::lists(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Expr& x, const Expr& y) { return exprs(x, y); });
}

bool Comparer::exprs(const Expr& a, const Expr& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.kind() != b.kind() || a.type() != b.type()) return false;
  switch (a.kind()) {
    case ExprKind::IntImm: return a.as<IntImmNode>()->value == b.as<IntImmNode>()->value;
    case ExprKind::FloatImm:
      return same_bits(a.as<FloatImmNode>()->value, b.as<FloatImmNode>()->value);
    case ExprKind::Var: return vars_.same(a.get(), b.get());
    case ExprKind::Cast: return exprs(a.as<CastNode>()->value, b.as<CastNode>()->value);
    case ExprKind::Unary: {
      auto *x = a.as<UnaryNode>(), *y = b.as<UnaryNode>();
      return x->op == y->op && exprs(x->a, y->a);
    }
    case ExprKind::Binary: {
      auto *x = a.as<BinaryNode>(), *y = b.as<BinaryNode>();
      return x->op == y->op && exprs(x->a, y->a) && exprs(x->b, y->b);
    }
    case ExprKind::Select: {
      auto *x = a.as<SelectNode>(), *y = b.as<SelectNode>();
      return exprs(x->cond, y->cond) && exprs(x->on_true, y->on_true) &&
             exprs(x->on_false, y->on_false);
    }
    case ExprKind::Load: {
      auto *x = a.as<LoadNode>(), *y = b.as<LoadNode>();
      return buffers(x->buffer, y->buffer) && lists(x->indices, y->indices) &&
             exprs(x->predicate, y->predicate);
    }
    case ExprKind::Ramp: {
      auto *x = a.as<RampNode>(), *y = b.as<RampNode>();
      return exprs(x->base, y->base) && exprs(x->stride, y->stride);
    }
    case ExprKind::Broadcast:
      return exprs(a.as<BroadcastNode>()->value, b.as<BroadcastNode>()->value);
    case ExprKind::Call: {
      auto *x = a.as<CallNode>(), *y = b.as<CallNode>();
      return x->op == y->op && lists(x->args, y->args);
    }
  }
  return false;
}

bool Comparer::buffers(const Buffer& a, const Buffer& b) {
  if (!rename_) return a == b;
  if (buffers_.knows(a.get(), b.get())) return buffers_.same(a.get(), b.get());
  bool alike = a->name == b->name && a->elem == b->elem && a->scope == b->scope &&
               a->swizzled_row == b->swizzled_row && lists(a->shape, b->shape);
  if (alike) buffers_.bind(a.get(), b.get());
  return alike;
}

bool Comparer::bind(const Var& a, const Var& b) {
  if (a.type() != b.type()) return false;
  vars_.bind(a.get(), b.get());
  return true;
}

bool Comparer::for_stmts(const ForNode& a, const ForNode& b) {
  return a.for_kind == b.for_kind && a.annotations == b.annotations && exprs(a.min, b.min) &&
         exprs(a.extent, b.extent) && bind(a.var, b.var) && stmts(a.body, b.body);
}

bool Comparer::blocks(const BlockNode& a, const BlockNode& b) {
  if (a.name != b.name || a.annotations != b.annotations || a.iters.size() != b.iters.size()) {
    return false;
  }
  for (size_t i = 0; i < a.iters.size(); ++i) {  // bindings refer to the loops outside
    const IterVar &x = a.iters[i], &y = b.iters[i];
    if (x.kind != y.kind || !exprs(x.extent, y.extent) || !exprs(x.binding, y.binding)) {
      return false;
    }
  }
  for (size_t i = 0; i < a.iters.size(); ++i) {
    if (!bind(a.iters[i].var, b.iters[i].var)) return false;
  }
  auto same_buffer = [&](const Buffer& x, const Buffer& y) { return buffers(x, y); };
  return exprs(a.predicate, b.predicate) &&
         std::equal(a.allocs.begin(), a.allocs.end(), b.allocs.begin(), b.allocs.end(),
                    same_buffer) &&
         stmts(a.init, b.init) && stmts(a.body, b.body);
}

bool Comparer::stores(const StoreNode& a, const StoreNode& b) {
  return a.is_async == b.is_async && buffers(a.buffer, b.buffer) && lists(a.indices, b.indices) &&
         exprs(a.value, b.value) && exprs(a.predicate, b.predicate);
}

bool Comparer::stmts(const Stmt& a, const Stmt& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case StmtKind::For: return for_stmts(*a.as<ForNode>(), *b.as<ForNode>());
    case StmtKind::Block: return blocks(*a.as<BlockNode>(), *b.as<BlockNode>());
    case StmtKind::Store: return stores(*a.as<StoreNode>(), *b.as<StoreNode>());
    case StmtKind::If: {
      auto *x = a.as<IfNode>(), *y = b.as<IfNode>();
      return exprs(x->cond, y->cond) && stmts(x->then_case, y->then_case) &&
             stmts(x->else_case, y->else_case);
    }
    case StmtKind::Seq: {
      const auto &x = a.as<SeqNode>()->stmts, &y = b.as<SeqNode>()->stmts;
      return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                        [&](const Stmt& s, const Stmt& t) { return stmts(s, t); });
    }
    case StmtKind::Evaluate: return exprs(a.as<EvaluateNode>()->value, b.as<EvaluateNode>()->value);
    case StmtKind::Let: {
      auto *x = a.as<LetNode>(), *y = b.as<LetNode>();
      return exprs(x->value, y->value) && bind(x->var, y->var) && stmts(x->body, y->body);
    }
    case StmtKind::Allocate: {
      auto *x = a.as<AllocateNode>(), *y = b.as<AllocateNode>();
      return buffers(x->buffer, y->buffer) && stmts(x->body, y->body);
    }
  }
  return false;
}

bool Comparer::programs(const Program& a, const Program& b) {
  if (a.name != b.name || a.params.size() != b.params.size() || a.dims.size() != b.dims.size()) {
    return false;
  }
  for (size_t i = 0; i < a.dims.size(); ++i) {
    const DimVar &x = a.dims[i], &y = b.dims[i];
    if (x.var.name() != y.var.name() || x.min != y.min || x.max != y.max || !bind(x.var, y.var)) {
      return false;
    }
  }
  for (size_t i = 0; i < a.params.size(); ++i) {
    if (a.params[i].role != b.params[i].role) return false;
    if (!buffers(a.params[i].buffer, b.params[i].buffer)) return false;
  }
  return stmts(a.body, b.body);
}

}  // namespace

bool equal(const Expr& a, const Expr& b) { return Comparer(false).exprs(a, b); }
bool equal(const Stmt& a, const Stmt& b) { return Comparer(true).stmts(a, b); }
bool equal(const Program& a, const Program& b) { return Comparer(true).programs(a, b); }

bool equal(const Module& a, const Module& b) {
  return equal(a.main, b.main) &&
         std::equal(a.packs.begin(), a.packs.end(), b.packs.begin(), b.packs.end(),
                    [](const Program& x, const Program& y) { return equal(x, y); });
}

bool equal_all(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Expr& x, const Expr& y) { return equal(x, y); });
}

}  // namespace tilewright
