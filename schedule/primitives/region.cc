#include "schedule/primitives/region.h"

#include "ir/compare.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

bool uses_iters(const Expr& e, const std::vector<IterVar>& iters) {
  for (const IterVar& iter : iters) {
    if (uses_var(e, iter.var)) return true;
  }
  return false;
}

Expr last_of(const Range& r) { return r.min + r.extent - 1; }

// The range of x for which `x * c` is in `range` (c > 0).
Range divide(const Range& range, int64_t c) {
  Expr first = simplify(floordiv(range.min + Expr(c - 1), c));
  Expr last = simplify(floordiv(last_of(range), c));
  // In general, the number of multiples depends on the start of the range.
  Expr most = simplify(floordiv(range.extent - 1, c) + 1);
  Expr exact = simplify(last - first + 1);
  return {first, as_int(exact) ? exact : most};
}

class Inverter {
 public:
  Inverter(const Var& var, const std::vector<IterVar>& iters) : var_(var), iters_(iters) {}

  std::optional<Preimage> run(const Expr& e, const Range& range, bool exact) const {
    if (e.same_as(var_)) {
      return Preimage{{simplify(range.min), simplify(range.extent)}, exact};
    }
    auto* binary = e.as<BinaryNode>();
    if (!binary) return std::nullopt;
    const Expr &a = binary->a, &b = binary->b;
    switch (binary->op) {
      case BinaryOp::Add:
        if (!uses_iters(b, iters_)) return run(a, {range.min - b, range.extent}, exact);
        if (!uses_iters(a, iters_)) return run(b, {range.min - a, range.extent}, exact);
        return std::nullopt;
      case BinaryOp::Sub:
        if (!uses_iters(b, iters_)) return run(a, {range.min + b, range.extent}, exact);
        if (!uses_iters(a, iters_)) return run(b, {a - last_of(range), range.extent}, exact);
        return std::nullopt;
      case BinaryOp::Mul: {
        auto c = as_int(b);
        if (!c || *c < 1) return std::nullopt;
        return run(a, divide(range, *c), exact && *c == 1);
      }
      case BinaryOp::FloorDiv: {
        auto c = as_int(b);
        if (!c || *c < 1) return std::nullopt;
        return run(a, {range.min * Expr(*c), range.extent * Expr(*c)}, exact);
      }
      default: return std::nullopt;
    }
  }

 private:
  const Var& var_;
  const std::vector<IterVar>& iters_;
};

// `x < n` follows when some binding is floordiv(x, a) with an extent of at most n / a: fuse and
// split leave such bindings.
bool bounded_by_binding(Analyzer& analyzer, const Expr& conjunct, const BlockNode& block) {
  auto* less = conjunct.as<BinaryNode>();
  if (!less || less->op != BinaryOp::LT) return false;
  for (const IterVar& iter : block.iters) {
    Expr value = iter.binding;
    Expr limit = iter.extent;
    if (auto* div = value.as<BinaryNode>(); div && div->op == BinaryOp::FloorDiv) {
      if (!equal(analyzer.simplify(div->a), analyzer.simplify(less->a))) continue;
      value = div->a;
      limit = iter.extent * div->b;
    } else if (!equal(analyzer.simplify(value), analyzer.simplify(less->a))) {
      continue;
    }
    if (analyzer.prove(limit <= less->b)) return true;
  }
  return false;
}

// The comparison at the loop's first iteration, where a comparison that holds at any iteration
// holds there too; undefined for other comparisons.
Expr at_first_iteration(Analyzer& known, const Expr& e, const ForNode& loop) {
  auto* less = e.as<BinaryNode>();
  if (!less || (less->op != BinaryOp::LT && less->op != BinaryOp::LE)) return {};
  Expr room = less->a - less->b;
  Expr later = substitute(room, {{loop.var.get(), loop.var + Expr(1)}});
  if (!known.prove(room <= later)) return {};
  return substitute(e, {{loop.var.get(), loop.min}});
}

// The part of the condition that must hold at the first iterations of the loops `inner`, outermost
// first. A loop may begin where one around it says, so the innermost one is left first. `all` is as in
// necessary_in().
Expr necessary(const Expr& condition, const std::vector<Stmt>& inner, Analyzer& known, bool* all) {
  Expr result;
  bool whole = true;
  for (Expr conjunct : conjuncts(condition)) {
    for (auto s = inner.rbegin(); s != inner.rend(); ++s) {
      const ForNode& loop = *s->as<ForNode>();
      if (!conjunct.defined() || !uses_var(conjunct, loop.var)) continue;
      conjunct = at_first_iteration(known, conjunct, loop);
    }
    whole = whole && conjunct.defined();
    if (conjunct.defined()) result = conjunction(result, known.simplify(conjunct));
  }
  if (all) *all = whole;
  return result;
}

}  // namespace

std::optional<Preimage> preimage(const Expr& index, const Var& var,
                                 const std::vector<IterVar>& iters, const Range& range) {
  return Inverter(var, iters).run(index, range, true);
}

bool same_range(Analyzer& analyzer, const Range& a, const Range& b) {
  return is_int(analyzer.simplify(a.min - b.min), 0) &&
         is_int(analyzer.simplify(a.extent - b.extent), 0);
}

bool contains(Analyzer& analyzer, const Range& outer, const Range& inner) {
  return analyzer.prove(outer.min <= inner.min) &&
         analyzer.prove(inner.min + inner.extent <= outer.min + outer.extent);
}

bool covers_extent(Analyzer& analyzer, const Range& range, const Expr& extent) {
  return contains(analyzer, range, {0, extent});
}

bool is_domain_predicate(Analyzer& analyzer, const BlockNode& block) {
  if (!block.predicate.defined()) return true;
  analyzer.push();
  for (const IterVar& iter : block.iters) {
    analyzer.assume(Expr(0) <= iter.binding);
    analyzer.assume(iter.binding < iter.extent);
  }
  bool implied = true;
  for (const Expr& conjunct : conjuncts(block.predicate)) {
    implied =
        implied && (analyzer.prove(conjunct) || bounded_by_binding(analyzer, conjunct, block));
  }
  analyzer.pop();
  return implied;
}

Expr guard_at(const Path& place, const BlockNode& block) {
  Expr guard;
  for (const Expr& conjunct : conjuncts(block.predicate)) {
    bool decided = true;
    for_each_expr(conjunct, [&](const Expr& e) {
      if (!e.as<VarNode>()) return;
      bool above = false;
      for (const Stmt& loop : all_loops_above(place)) {
        above = above || loop.as<ForNode>()->var.same_as(e);
      }
      decided = decided && above;
    });
    if (decided) guard = conjunction(guard, conjunct);
  }
  return guard;
}

Expr necessary_at(const Tree& tree, const Path& place, const Path& path) {
  Analyzer known = tree.analyzer_at(path);
  std::vector<Stmt> above = all_loops_above(place), inner;
  for (const Stmt& s : all_loops_above(path)) {
    bool outer = std::any_of(above.begin(), above.end(), [&](const Stmt& o) {
      return o.as<ForNode>()->var.same_as(s.as<ForNode>()->var);
    });
    if (!outer) inner.push_back(s);
  }
  return necessary(path.back().as<BlockNode>()->predicate, inner, known, nullptr);
}

Expr necessary_in(const Stmt& body, const BlockNode& block, Analyzer& analyzer, bool* all,
                  const Expr& also) {
  std::vector<Stmt> inner;
  analyzer.push();
  for (const Stmt& s : path_to(body, &block)) {
    auto* loop = s.as<ForNode>();
    if (!loop) continue;
    inner.push_back(s);
    analyzer.bind(loop->var, loop->min, loop->extent);
  }
  Expr result = necessary(conjunction(block.predicate, also), inner, analyzer, all);
  analyzer.pop();
  return result;
}

bool is_domain_predicate_at(const Tree& tree, const Path& place, const Path& path) {
  const BlockNode& block = *path.back().as<BlockNode>();
  Analyzer known = tree.analyzer_at(path);
  for (const Expr& conjunct : conjuncts(guard_at(place, block))) known.assume(conjunct);
  return is_domain_predicate(known, block);
}

}  // namespace tilewright
