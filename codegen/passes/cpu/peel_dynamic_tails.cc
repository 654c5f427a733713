// Separates the whole tiles of a dynamic axis from its tail, a partial tile.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/ceil_div.h"
#include "codegen/lowering.h"
#include "codegen/passes/guards.h"
#include "codegen/passes/ranged_mutator.h"
#include "ir/compare.h"

namespace tilewright {
namespace {

constexpr int64_t kLanes = 16;            // lanes of a vector, approximately
constexpr int64_t kMostRows = 28;         // in the largest tile with code for each number of rows
constexpr int64_t kMostTailStores = 700;  // limit on the vector stores in all of that code

using Nodes = std::set<const ExprNode*>;

bool uses_any(const Expr& e, const Nodes& vars) {
  bool found = false;
  for_each_expr(e, [&](const Expr& x) { found |= vars.count(x.get()) != 0; });
  return found;
}

// A comparison `inner < rest`. The size `rest` that is left of a dynamic axis is known outside of
// the loops whose variables make up `inner`.
struct Guard {
  Expr condition, inner, rest;
  Interval inner_range;
  bool unrolled;  // all loops of `inner` are unrolled
};

// The place where guards are decided.
enum class Place {
  Loop,       // at a variable: guards that it takes part in, and no serial loop further inside
  Outermost,  // in front of everything: also guards that no loop takes part in
  Reduction,  // at a reduction's loop: other loops of it may take part, further inside
};

// Collects the guards by dynamic sizes that are best decided at a variable.
class GuardFinder : public Visitor {
 public:
  GuardFinder(Expr var, Place place, const Nodes& dims, Analyzer& known)
      : var_(std::move(var)), place_(place), dims_(dims), known_(known) {}
  std::vector<Guard> found;

 protected:
  void visit_for(const ForNode& n) override {
    // Guards inside parallel loops are not decided around these.
    if (n.for_kind == ForKind::Parallel) return;
    bool reduces = place_ == Place::Reduction && carries_reduction(n.var, n.body);
    bool later = n.for_kind == ForKind::Serial && !reduces;
    KnowledgeScope scope(known_);
    known_.bind(n.var, n.min, n.extent);
    Nodes& names = later ? later_ : inner_;
    names.insert(n.var.get());
    if (n.for_kind == ForKind::Unrolled) unrolled_.insert(n.var.get());
    Visitor::visit_for(n);
    names.erase(n.var.get());
  }
  void visit_let(const LetNode& n) override {
    KnowledgeScope scope(known_);
    known_.bind(n.var, known_.bounds(n.value));
    later_.insert(n.var.get());
    Visitor::visit_let(n);
    later_.erase(n.var.get());
  }
  void visit_if(const IfNode& n) override {
    collect(n.cond);
    Visitor::visit_if(n);
  }

 private:
  void collect(const Expr& cond) {
    auto* n = cond.as<BinaryNode>();
    if (!n) return;
    if (n->op == BinaryOp::And || n->op == BinaryOp::Or) {
      collect(n->a);
      collect(n->b);
      return;
    }
    Expr difference = below_zero(cond);
    if (!difference.defined() || !uses_any(cond, dims_) || uses_any(cond, later_)) return;
    if (place_ != Place::Outermost && !uses_var(cond, var_)) return;
    VarMap start;
    for (const ExprNode* v : inner_) start[v] = 0;
    Expr outer = simplify(substitute(difference, start));
    Guard guard{cond, known_.simplify(difference - outer), simplify(Expr(0) - outer), {}, true};
    bool separate = true;
    for_each_expr(guard.inner, [&](const Expr& e) {
      separate &= !e.as<LoadNode>() && (!e.as<VarNode>() || inner_.count(e.get()) != 0);
      guard.unrolled &= !e.as<VarNode>() || unrolled_.count(e.get()) != 0;
    });
    guard.inner_range = known_.bounds(guard.inner);
    // A guard that is the same for all iterations inside is as well decided there.
    bool varies = guard.inner_range.is_bounded() && !guard.inner_range.is_point();
    if (separate && varies) found.push_back(std::move(guard));
  }

  Expr var_;
  Place place_;
  const Nodes& dims_;
  Analyzer& known_;
  Nodes inner_, later_, unrolled_;
};

// The approximate number of vector stores that unrolling makes of a statement.
int64_t count_stores(const Stmt& s) {
  class Counter : public Visitor {
   public:
    int64_t count = 0;

   protected:
    void visit_for(const ForNode& n) override {
      int64_t copies = as_int(n.extent).value_or(1);
      if (n.for_kind == ForKind::Vectorized) copies = ceil_div(copies, kLanes);
      bool repeats = n.for_kind == ForKind::Vectorized || n.for_kind == ForKind::Unrolled;
      if (!repeats) copies = 1;
      copies_ *= copies;
      Visitor::visit_for(n);
      copies_ /= copies;
    }
    void visit_store(const StoreNode&) override { count += copies_; }

   private:
    int64_t copies_ = 1;
  };
  Counter counter;
  counter(s);
  return counter.count;
}

class Peeler : public RangedMutator {
 public:
  explicit Peeler(const std::vector<DimVar>& dims) {
    for (const DimVar& d : dims) {
      known_.bind(d.var, Interval{d.min, d.max});
      dims_.insert(d.var.get());
    }
  }

  // `body` with the guards in front of it that `var`, and the loops around it, decide.
  Stmt decided(const Expr& var, Place place, const Stmt& body) {
    if (!body.defined()) return body;
    std::vector<Guard> guards = guards_of(var, place, body);
    if (guards.empty()) return mutate(body);
    Interval inner = range_of(guards);
    Var rest(fmt::format("{}_left", var.defined() ? Var(var).name() : "tile"));
    Stmt tail = tail_of(var, place, body, guards, rest, inner);
    Stmt whole = decided(var, place, with_truth(body, guards, true));
    Stmt chain = either(Expr(rest) > Expr(inner.max), whole, tail);
    return chain.defined() ? make_let(rest, guards[0].rest, chain) : chain;
  }

 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    bool parallel = n.for_kind == ForKind::Parallel;
    if (n.for_kind != ForKind::Serial && !parallel) return RangedMutator::mutate_for(n, s);
    KnowledgeScope scope(known_);
    known_.bind(n.var, n.min, n.extent);
    bool reduces = !parallel && carries_reduction(n.var, n.body);
    if (reduces) {
      if (Stmt loops = cut(n); loops.defined()) return loops;
    }
    Stmt body = reduces ? mutate(n.body)
                        : decided(n.var, parallel ? Place::Outermost : Place::Loop, n.body);
    if (body.same_as(n.body)) return s;
    return body.defined() ? make_for(n.var, n.min, n.extent, n.for_kind, body, n.annotations)
                          : body;
  }

  Stmt mutate_let(const LetNode& n, const Stmt& s) override {
    KnowledgeScope scope(known_);
    known_.bind(n.var, known_.bounds(n.value));
    Stmt body = decided(n.var, Place::Loop, n.body);
    if (body.same_as(n.body)) return s;
    return body.defined() ? make_let(n.var, n.value, body) : body;
  }

 private:
  // The guards that share the first one's rest.
  std::vector<Guard> guards_of(const Expr& var, Place place, const Stmt& body) {
    GuardFinder finder(var, place, dims_, known_);
    finder(body);
    std::vector<Guard>& found = finder.found;
    if (found.empty()) return {};
    Expr rest = found[0].rest;
    std::erase_if(found, [&](const Guard& g) { return !equal(g.rest, rest); });
    return std::move(found);
  }

  static Interval range_of(const std::vector<Guard>& guards) {
    Interval all = guards[0].inner_range;
    for (const Guard& g : guards) {
      all = {std::min(all.min, g.inner_range.min), std::max(all.max, g.inner_range.max)};
    }
    return all;
  }

  static Stmt either(const Expr& cond, const Stmt& yes, const Stmt& no) {
    if (yes.defined()) return make_if(cond, yes, no);
    return no.defined() ? make_if(!cond, no) : no;
  }

  Stmt with_truth(const Stmt& body, const std::vector<Guard>& guards, bool truth) {
    std::map<const ExprNode*, Expr> replaced;
    for (const Guard& g : guards) replaced[g.condition.get()] = make_bool(truth);
    return simplify(ReplaceConditions(std::move(replaced))(body), known_);
  }

  // `body` where `rest` is left, given as a number or a name.
  static Stmt with_rest(const Stmt& body, const std::vector<Guard>& guards, const Expr& rest) {
    std::map<const ExprNode*, Expr> replaced;
    for (const Guard& g : guards) replaced[g.condition.get()] = g.inner < rest;
    return ReplaceConditions(std::move(replaced))(body);
  }

  // The code for partial tiles. There is code for each number of rows that can be left, so that the
  // rows stay in registers. Otherwise one code checks each row or masks lanes.
  Stmt tail_of(const Expr& var, Place place, const Stmt& body, const std::vector<Guard>& guards,
               const Expr& rest, Interval inner) {
    int64_t rows = inner.max - inner.min;
    bool unrolled = std::all_of(guards.begin(), guards.end(), [](auto& g) { return g.unrolled; });
    if (!unrolled || rows > kMostRows || count_stores(body) * rows / 2 > kMostTailStores) {
      return mutate(with_rest(body, guards, rest));
    }
    Stmt chain = decided(var, place, with_truth(body, guards, false));
    for (int64_t r = inner.max; r > inner.min; --r) {
      chain =
          either(eq(rest, Expr(r)), decided(var, place, with_rest(body, guards, Expr(r))), chain);
    }
    return chain;
  }

  // Cuts a reduction's loop in two: the iterations in which all guards hold, and the others.
  // Undefined where no iterations hold first.
  Stmt cut(const ForNode& n) {
    std::vector<Guard> guards = guards_of(n.var, Place::Reduction, n.body);
    if (guards.empty()) return {};
    const Expr& rest = guards[0].rest;
    VarMap next{{n.var.get(), n.var + 1}}, first{{n.var.get(), n.min}};
    auto step = as_int(simplify(rest - substitute(rest, next)));
    if (!step || *step < 1) return {};
    Expr room = substitute(rest, first) - Expr(range_of(guards).max) + Expr(*step - 1);
    Expr count = known_.simplify(max(Expr(0), min(n.extent, floordiv(room, *step))));
    Var whole(n.var.name() + "_whole"), later(n.var.name());
    Stmt bulk = mutate(with_truth(n.body, guards, true));
    Stmt tail = mutate(substitute(n.body, VarMap{{n.var.get(), later}}));
    std::vector<Stmt> loops;
    if (bulk.defined()) {
      loops.push_back(make_for(n.var, n.min, whole, n.for_kind, bulk, n.annotations));
    }
    if (tail.defined()) {
      loops.push_back(
          make_for(later, n.min + whole, n.extent - whole, n.for_kind, tail, n.annotations));
    }
    return make_let(whole, count, make_seq(std::move(loops)));
  }

  Nodes dims_;
};

}  // namespace

Program peel_dynamic_tails(const Program& program) {
  if (program.dims.empty()) return program;
  Program result = program;
  result.body = Peeler(program.dims).decided({}, Place::Outermost, program.body);
  if (!result.body.defined()) throw LoweringError("the program does nothing");
  return result;
}

}  // namespace tilewright
