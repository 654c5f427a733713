// Peeled masked iterations: one branch separates tiles that no mask touches from others.
#include <algorithm>
#include <map>
#include <vector>

#include "codegen/cuda/cuda_masks.h"
#include "codegen/passes/ranged_mutator.h"
#include "codegen/statements.h"
#include "ir/arith/interval.h"
#include "ir/arith/steady_loads.h"
#include "ir/compare.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

// Far beyond every difference of two indices that are compared.
constexpr int64_t kBeyond = int64_t{1} << 40;

bool has(const std::vector<Expr>& list, const Expr& e) {
  return std::any_of(list.begin(), list.end(), [&](const Expr& x) { return equal(x, e); });
}

// The conditions of all selections in a statement.
std::vector<Expr> masks_of(const Stmt& s) {
  std::vector<Expr> masks;
  for_each_expr(s, [&](const Expr& e) {
    auto* n = e.as<SelectNode>();
    for (const Expr& mask : conjuncts(n ? n->cond : Expr())) {
      if (!has(masks, mask)) masks.push_back(mask);
    }
  });
  return masks;
}

// Whether values come from global memory. Loads of masks do not count: they only decide on values.
bool copies_global(const Stmt& s) {
  class Finder : public Visitor {
   public:
    bool found = false;

   protected:
    void visit_select(const SelectNode& n) override {
      visit(n.on_true);
      visit(n.on_false);
    }
    void visit_load(const LoadNode& n) override {
      found |= n.buffer->scope == Scope::Global;
      Visitor::visit_load(n);
    }
  };
  Finder finder;
  finder(s);
  return finder.found;
}

// The condition around loops for a comparison to hold in all of their iterations; undefined for
// other conditions. A limit may be a selection (the keys of a row that exists). It is then enough
// that the selection's condition and the comparison with its first limit hold for all.
Expr holds_in(const Expr& mask, const std::map<const ExprNode*, Range>& loops) {
  const Expr less = as_less(mask);
  auto* limit = less.as<BinaryNode>();
  const bool compares = limit && (limit->op == BinaryOp::LE || limit->op == BinaryOp::LT) &&
                        limit->a.type() == Type(ElemType::index);
  if (!compares) return {};
  if (auto* either = limit->b.as<SelectNode>()) {
    const Expr cond = holds_in(either->cond, loops);
    const Expr first = holds_in(binary(limit->op, limit->a, either->on_true), loops);
    return cond.defined() && first.defined() ? cond && first : Expr();
  }
  // An unknown range reaches to the end of the possible values.
  const Expr difference = limit->a - limit->b + Expr(kBeyond);
  const Range range = cover({difference}, {Expr(2 * kBeyond)}, loops)[0];
  const Expr last = range.min + range.extent - Expr(1);
  return limit->op == BinaryOp::LE ? last <= Expr(kBeyond) : last < Expr(kBeyond);
}

// The condition around the statement's loops for a condition to hold in all of their iterations.
Expr holds_throughout(const Stmt& s, const Expr& mask) {
  std::map<const ExprNode*, Range> loops;
  for_each_stmt(s, [&](const Stmt& x) {
    if (auto* loop = x.as<ForNode>()) loops[loop->var.get()] = {loop->min, loop->extent};
  });
  const BufferSet stored = stored_by(s);
  SteadyLoads steady(loops, [&](const Buffer& b) {
    return b->scope == Scope::Global && !stored.contains(b.get());
  });
  const Expr holds = holds_in(steady(mask), loops);
  return holds.defined() ? steady.restored(holds) : holds;
}

// Removes conditions that are known to hold from a statement.
class Unmasked : public Mutator {
 public:
  explicit Unmasked(const std::vector<Expr>& held) : held_(held) {}

 protected:
  Expr mutate_select(const SelectNode& n, const Expr&) override {
    Expr left;
    for (const Expr& e : conjuncts(n.cond)) {
      if (!has(held_, e)) left = conjunction(left, e);
    }
    if (!left.defined()) return mutate(n.on_true);
    return select(mutate(left), mutate(n.on_true), mutate(n.on_false));
  }

 private:
  const std::vector<Expr>& held_;
};

class Apart : public RangedMutator {
 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    auto it = n.annotations.find(kMasksApartKey);
    if (it == n.annotations.end()) return RangedMutator::mutate_for(n, s);
    known_.push();
    known_.bind(n.var, n.min, n.extent);
    Stmt body = in_iteration(n.body);
    known_.pop();
    Annotations notes = n.annotations;
    notes.erase(kMasksApartKey);
    return make_for(n.var, n.min, n.extent, n.for_kind, body, notes);
  }

 private:
  // The statements of an iteration, inside its allocations.
  Stmt in_iteration(const Stmt& s) {
    if (auto* n = s.as<AllocateNode>()) return make_allocate(n->buffer, in_iteration(n->body));
    if (auto* n = s.as<SeqNode>()) {
      std::vector<Stmt> stmts;
      for (const Stmt& child : n->stmts) stmts.push_back(in_iteration(child));
      return make_seq(std::move(stmts));
    }
    return s.as<ForNode>() && !copies_global(s) ? apart(s) : s;
  }

  Stmt apart(const Stmt& s) {
    std::vector<Expr> held;
    Expr whole;
    for (const Expr& mask : masks_of(s)) {
      Expr cond = holds_throughout(s, mask);
      if (cond.defined()) cond = known_.simplify(cond);
      if (!cond.defined() || is_int(cond, 0)) continue;
      held.push_back(mask);
      if (is_int(cond, 1)) continue;
      whole = whole.defined() ? whole && cond : cond;
    }
    if (held.empty()) return s;
    Stmt unmasked = Unmasked(held)(s);
    return whole.defined() ? make_if(whole, unmasked, s) : unmasked;
  }
};

}  // namespace

Program set_masks_apart(const Program& program) {
  return with_body(program, Apart()(program.body));
}

}  // namespace tilewright
