// Simplification of statements: each expression under the facts that its surroundings give.
#include "ir/arith/simplify.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

// Axes of threads and blocks are part of a launch, even with an extent of 1.
bool is_plain_loop(ForKind kind) {
  return kind == ForKind::Serial || kind == ForKind::Parallel || kind == ForKind::Vectorized ||
         kind == ForKind::Unrolled;
}

// A loop with the annotation "copies" (codegen/cuda/cuda_tensor_copy.h) is kept: it also names the
// threads that issue its copies.
bool is_kept(const ForNode& n) { return n.annotations.count("copies") != 0; }

class StmtSimplifier : public Mutator {
 public:
  StmtSimplifier(Analyzer* known, bool drop_unit_loops)
      : known_(*known), drop_unit_loops_(drop_unit_loops) {}

 protected:
  using Mutator::mutate;
  Expr mutate(const Expr& e) override { return known_.simplify(e); }

  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    Expr min = mutate(n.min), extent = mutate(n.extent);
    if (known_.prove(extent <= Expr(0))) return Stmt();
    if (drop_unit_loops_ && is_int(extent, 1) && is_plain_loop(n.for_kind) && !is_kept(n)) {
      return mutate(substitute(n.body, VarMap{{n.var.get(), min}}));
    }
    KnowledgeScope scope(known_);
    known_.bind_kept(n.var, min, extent);
    Stmt body = mutate(n.body);
    if (!body.defined()) return Stmt();
    if (min.same_as(n.min) && extent.same_as(n.extent) && body.same_as(n.body)) return s;
    return make_for(n.var, min, extent, n.for_kind, body, n.annotations);
  }

  Stmt mutate_block(const BlockNode& n, const Stmt& s) override {
    bool changed = false;
    std::vector<IterVar> iters;
    for (const IterVar& iter : n.iters) {
      iters.push_back({iter.var, mutate(iter.extent), iter.kind, mutate(iter.binding)});
      changed |=
          !iters.back().extent.same_as(iter.extent) || !iters.back().binding.same_as(iter.binding);
    }
    KnowledgeScope scope(known_);
    for (const IterVar& iter : iters) known_.bind_kept(iter.var, Expr(0), iter.extent);
    Expr predicate = mutate(n.predicate);
    if (predicate.defined()) {
      if (is_int(predicate, 0)) return Stmt();
      known_.assume(predicate);
      if (is_int(predicate, 1)) predicate = Expr();
    }
    Stmt init = mutate(n.init), body = mutate(n.body);
    if (!body.defined()) return init.defined() ? s : Stmt();
    changed |= !predicate.same_as(n.predicate) || !init.same_as(n.init) || !body.same_as(n.body);
    if (!changed) return s;
    return make_block(n.name, std::move(iters), body, init, predicate, n.allocs, n.annotations);
  }

  Stmt mutate_if(const IfNode& n, const Stmt& s) override {
    Expr cond = mutate(n.cond);
    if (is_int(cond, 1)) return mutate(n.then_case);
    if (is_int(cond, 0)) return mutate(n.else_case);
    Expr opposite = mutate(!cond);
    Stmt then_case = mutate_under(cond, n.then_case);
    Stmt else_case = mutate_under(opposite, n.else_case);
    if (!then_case.defined()) return else_case.defined() ? make_if(opposite, else_case) : Stmt();
    bool same =
        cond.same_as(n.cond) && then_case.same_as(n.then_case) && else_case.same_as(n.else_case);
    return same ? s : make_if(cond, then_case, else_case);
  }

  Stmt mutate_let(const LetNode& n, const Stmt& s) override {
    Expr value = mutate(n.value);
    if (value.as<VarNode>() != nullptr || value.as<IntImmNode>() != nullptr) {
      return mutate(substitute(n.body, VarMap{{n.var.get(), value}}));
    }
    KnowledgeScope scope(known_);
    if (value.type() == Type(ElemType::index)) known_.bind_kept(n.var, value, Expr(1));
    Stmt body = mutate(n.body);
    if (!body.defined()) return Stmt();
    return value.same_as(n.value) && body.same_as(n.body) ? s : make_let(n.var, value, body);
  }

  Stmt mutate_store(const StoreNode& n, const Stmt& s) override {
    bool changed = false;
    std::vector<Expr> indices = mutate_all(n.indices, &changed);
    Expr predicate = mutate(n.predicate);
    if (predicate.defined() && is_constant(predicate, 0)) return Stmt();
    Expr value = mutate(n.value);
    if (predicate.defined() && is_constant(predicate, 1)) predicate = Expr();
    changed |= !value.same_as(n.value) || !predicate.same_as(n.predicate);
    return changed ? make_store(n.buffer, std::move(indices), value, predicate, n.is_async) : s;
  }

 private:
  // True for this boolean constant in every lane.
  static bool is_constant(const Expr& e, int64_t value) {
    auto* n = e.as<BroadcastNode>();
    return is_int(n != nullptr ? n->value : e, value);
  }

  Stmt mutate_under(const Expr& condition, const Stmt& s) {
    if (!s.defined()) return s;
    KnowledgeScope scope(known_);
    known_.assume(condition);
    return mutate(s);
  }

  Analyzer& known_;
  const bool drop_unit_loops_;
};

}  // namespace

Stmt simplify(const Stmt& s, bool drop_unit_loops) {
  Analyzer known;
  return StmtSimplifier(&known, drop_unit_loops)(s);
}

Stmt simplify(const Stmt& s, Analyzer& known, bool drop_unit_loops) {
  return StmtSimplifier(&known, drop_unit_loops)(s);
}

Program simplify(const Program& p, bool drop_unit_loops) {
  Analyzer known;
  for (const DimVar& dim : p.dims) known.bind(dim.var, Interval{dim.min, dim.max});
  Program result = p;
  result.body = StmtSimplifier(&known, drop_unit_loops)(p.body);
  return result;
}

}  // namespace tilewright
