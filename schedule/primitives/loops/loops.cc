#include "schedule/primitives/loops/loops.h"

#include <algorithm>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "ir/arith/interval.h"
#include "ir/visitor.h"
#include "schedule/dependence.h"
#include "schedule/init_order.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/loops/loop_kinds.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

void require_serial(const Tree& tree, const Stmt& s) {
  const ForNode& loop = loop_of(s);
  tree.require(loop.for_kind == ForKind::Serial, RefusalKind::BadStructure,
               fmt::format("loop '{}' is {}; rewrite loops before they get a kind", loop.var.name(),
                           name_of(loop.for_kind)),
               {s});
}

// Adds a condition on loop variables to the blocks under a statement.
class Guard : public Mutator {
 public:
  explicit Guard(Expr condition) : condition_(std::move(condition)) {}

 protected:
  using Mutator::mutate;
  Expr mutate(const Expr& e) override { return e; }
  Stmt mutate_block(const BlockNode& n, const Stmt&) override {
    return with_bindings(n, n.iters, conjunction(n.predicate, condition_));
  }

 private:
  Expr condition_;
};

std::vector<Path> paths_of(const Tree& tree, const std::vector<std::string>& names) {
  std::vector<Path> paths;
  for (const std::string& name : names) {
    bool twice = std::count(names.begin(), names.end(), name) > 1;
    if (twice) {
      tree.bad_argument("loops", "each loop once", fmt::format("[{}]", fmt::join(names, ", ")));
    }
    paths.push_back(tree.loop(name));
  }
  return paths;
}

// The factors with -1 replaced (undefined when it must be computed from a dynamic extent). Their
// product is checked against the extent's bounds.
std::vector<Expr> resolve_factors(const Tree& tree, const Path& path,
                                  const std::vector<int64_t>& factors) {
  const ForNode& loop = loop_of(path.back());
  std::string got = fmt::format("[{}]", fmt::join(factors, ", "));
  const char* expected = "integers of 1 or more, at most one of them -1";
  int64_t product = 1;
  for (int64_t factor : factors) {
    if (factor == -1) continue;
    if (factor < 1 || __builtin_mul_overflow(product, factor, &product)) {
      tree.bad_argument("factors", expected, got, {path.back()});
    }
  }
  auto inferred = std::count(factors.begin(), factors.end(), -1);
  if (factors.empty() || inferred > 1) {
    tree.bad_argument("factors", expected, got, {path.back()});
  }
  Analyzer known = tree.analyzer_at(path);
  if (inferred == 0 && !known.prove(loop.extent <= Expr(product))) {
    int64_t most = known.bounds(loop.extent).max;
    tree.bad_argument(
        "factors",
        fmt::format("a product of at least {}, the extent of loop '{}'", most, loop.var.name()),
        fmt::format("{} (product {})", got, product), {path.back()});
  }
  std::vector<Expr> extents;
  for (int64_t factor : factors) {
    extents.push_back(factor == -1
                          ? known.simplify(floordiv(loop.extent + Expr(product - 1), Expr(product)))
                          : Expr(factor));
  }
  return extents;
}

}  // namespace

Applied Split::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Path path = tree.loop(loop);
  const ForNode& old = loop_of(path.back());
  require_serial(tree, path.back());
  std::vector<Expr> extents = resolve_factors(tree, path, factors);

  Names names(module.main);
  std::vector<Var> vars;
  Expr flat(0);
  Analyzer known = tree.analyzer_at(path);
  for (size_t i = 0; i < extents.size(); ++i) {
    vars.emplace_back(names.fresh(fmt::format("{}_{}", loop, i)));
    known.bind(vars.back(), Expr(0), extents[i]);
    flat = i == 0 ? Expr(vars[i]) : flat * extents[i] + vars[i];
  }
  flat = known.simplify(flat);
  Expr inside = flat < old.extent;
  Stmt body = substitute(old.body, {{old.var.get(), is_int(old.min, 0) ? flat : old.min + flat}});
  if (!known.prove(inside)) body = Guard(inside)(body);
  for (size_t i = vars.size(); i-- > 0;) {
    body = make_for(vars[i], Expr(0), extents[i], ForKind::Serial, body,
                    i == 0 ? old.annotations : Annotations{});
  }
  Applied applied{{tree.replaced(path, body), module.packs}, {}};
  for (const Var& var : vars) applied.results.push_back(var.name());
  return applied;
}

Applied Fuse::apply(const Module& module) const {
  Tree tree(kName, module.main);
  std::vector<Path> paths = paths_of(tree, loops);
  if (loops.size() < 2) {
    tree.bad_argument("loops", "two loops or more", fmt::format("[{}]", fmt::join(loops, ", ")));
  }
  Annotations notes;
  for (size_t i = 0; i < paths.size(); ++i) {
    const Stmt& s = paths[i].back();
    require_serial(tree, s);
    if (i > 0) {
      const Stmt& outer = paths[i - 1].back();
      tree.require(
          loop_of(outer).body.same_as(s), RefusalKind::BadStructure,
          fmt::format("loop '{}' is not the whole body of loop '{}'", loops[i], loops[i - 1]),
          {outer, s});
    }
    for (size_t j = 0; j < i; ++j) {
      const Var& var = loop_of(paths[j].back()).var;
      bool depends = uses_var(loop_of(s).extent, var) || uses_var(loop_of(s).min, var);
      tree.require(!depends, RefusalKind::BadStructure,
                   fmt::format("the range of loop '{}' depends on loop '{}'", loops[i], loops[j]),
                   {s});
    }
    notes.insert(loop_of(s).annotations.begin(), loop_of(s).annotations.end());
  }

  Names names(module.main);
  Var fused(names.fresh(fmt::format("{}_fused", fmt::join(loops, "_"))));
  VarMap values;
  Expr rest = fused, extent(1);
  for (size_t i = paths.size(); i-- > 0;) {
    const ForNode& loop = loop_of(paths[i].back());
    Expr value = i == 0 ? rest : floormod(rest, loop.extent);
    values[loop.var.get()] = is_int(loop.min, 0) ? value : loop.min + value;
    if (i > 0) rest = floordiv(rest, loop.extent);
    extent = is_int(extent, 1) ? loop.extent : loop.extent * extent;
  }
  Stmt body = substitute(loop_of(paths.back().back()).body, values);
  Stmt loop = make_for(fused, Expr(0), extent, ForKind::Serial, body, notes);
  return {{tree.replaced(paths[0], loop), module.packs}, {fused.name()}};
}

namespace {

// The loops of `paths` and those between, from the outermost to the innermost, each the body of the
// one before. Refuses when they are not in one chain of loops.
std::vector<Stmt> chain_of(const Tree& tree, const std::vector<Path>& paths) {
  auto shorter = [](const Path& a, const Path& b) { return a.size() < b.size(); };
  const Path& first = *std::min_element(paths.begin(), paths.end(), shorter);
  const Path& last = *std::max_element(paths.begin(), paths.end(), shorter);
  for (const Path& path : paths) {
    bool on_chain = path.size() <= last.size() && last[path.size() - 1].same_as(path.back());
    tree.require(on_chain, RefusalKind::BadStructure,
                 fmt::format("loop '{}' does not stand around or under loop '{}'",
                             loop_of(path.back()).var.name(), loop_of(last.back()).var.name()),
                 {path.back(), last.back()});
  }
  std::vector<Stmt> chain(last.begin() + static_cast<std::ptrdiff_t>(first.size()) - 1, last.end());
  for (size_t i = 1; i < chain.size(); ++i) {
    if (chain[i].as<ForNode>()) continue;
    auto* seq = chain[i].as<SeqNode>();
    auto* block = chain[i].as<BlockNode>();
    std::string what = seq     ? fmt::format("holds {} statements", seq->stmts.size())
                       : block ? fmt::format("holds block '{}'", block->name)
                               : std::string("holds a condition");
    tree.refuse(RefusalKind::BadStructure,
                fmt::format("between loops '{}' and '{}' the nest branches: loop '{}' {}",
                            loop_of(chain.front()).var.name(), loop_of(chain.back()).var.name(),
                            loop_of(chain[i - 1]).var.name(), what),
                {chain[i - 1]});
  }
  return chain;
}

void require_ranges_outside(const Tree& tree, const std::vector<Stmt>& order) {
  for (size_t i = 0; i < order.size(); ++i) {
    const ForNode& outer = loop_of(order[i]);
    for (size_t j = i + 1; j < order.size(); ++j) {
      const ForNode& inner = loop_of(order[j]);
      bool depends = uses_var(outer.extent, inner.var) || uses_var(outer.min, inner.var);
      tree.require(!depends, RefusalKind::BadStructure,
                   fmt::format("the range of loop '{}' depends on loop '{}', which would come "
                               "inside it",
                               outer.var.name(), inner.var.name()),
                   {order[i]});
    }
  }
}

}  // namespace

Applied Reorder::apply(const Module& module) const {
  Tree tree(kName, module.main);
  if (loops.empty()) tree.bad_argument("loops", "a loop or more", "[]");
  std::vector<Path> paths = paths_of(tree, loops);
  std::vector<Stmt> chain = chain_of(tree, paths), order = chain;
  size_t next = 0;
  for (Stmt& place : order) {
    bool listed = std::any_of(paths.begin(), paths.end(),
                              [&](const Path& path) { return path.back().same_as(place); });
    if (listed) place = paths[next++].back();
  }
  bool same = std::equal(order.begin(), order.end(), chain.begin(),
                         [](const Stmt& a, const Stmt& b) { return a.same_as(b); });
  if (same) return {module, {}};
  require_ranges_outside(tree, order);
  require_permutable(tree, chain);
  require_init_first(tree, chain, order);

  Path path = path_to(module.main.body, chain.front().get());
  Stmt nest = wrap_loops(order, loop_of(chain.back()).body);
  Program program = tree.replaced(path, nest);
  Path moved = path_to_loop(program.body, loop_of(order.front()).var.name());
  require_legal_kinds(Tree(kName, program), moved.back());
  return {{std::move(program), module.packs}, {}};
}

namespace {

// Refuses unless iteration i of `later` gives the same result before iteration i+1 of `earlier` as
// after all of its iterations.
void require_mergeable(const Tree& tree, const Path& path, const Stmt& earlier, const Stmt& later) {
  const ForNode &a = loop_of(earlier), &b = loop_of(later);
  Analyzer known = tree.analyzer_at(path);
  known.bind(a.var, a.min, a.extent);
  Stmt body = substitute(b.body, {{b.var.get(), a.var}});
  Accesses first = accesses(a.body);
  for (const BufferRegion& written : accesses(body).writes) {
    for (const auto* touched : {&first.reads, &first.writes}) {
      for (const BufferRegion& region : *touched) {
        tree.require(region.buffer != written.buffer, RefusalKind::Dependence,
                     fmt::format("loop '{}' writes '{}', which loop '{}' before it still uses",
                                 b.var.name(), written.buffer->name, a.var.name()),
                     {earlier, later});
      }
    }
  }
  require_flow_in_step(tree, earlier, later, body, known);
}

}  // namespace

Applied Merge::apply(const Module& module) const {
  Tree tree(kName, module.main);
  std::vector<Path> paths = paths_of(tree, loops);
  if (loops.size() < 2) {
    tree.bad_argument("loops", "two loops or more", fmt::format("[{}]", fmt::join(loops, ", ")));
  }
  const Path& path = paths[0];
  auto* seq = path.size() > 1 ? path[path.size() - 2].as<SeqNode>() : nullptr;
  size_t at = 0;
  while (seq && !seq->stmts[at].same_as(path.back())) ++at;
  Analyzer known = tree.analyzer_at(path);
  const ForNode& first = loop_of(path.back());
  for (size_t i = 0; i < paths.size(); ++i) {
    const Stmt& s = paths[i].back();
    require_serial(tree, s);
    bool follows = seq && at + i < seq->stmts.size() && seq->stmts[at + i].same_as(s);
    tree.require(
        follows, RefusalKind::BadStructure,
        fmt::format("the loops must follow each other in one sequence; '{}' does not", loops[i]),
        {s});
    bool alike = known.prove(eq(loop_of(s).min, first.min)) &&
                 known.prove(eq(loop_of(s).extent, first.extent));
    tree.require(alike, RefusalKind::BadStructure,
                 fmt::format("the ranges of loops '{}' and '{}' differ", loops[0], loops[i]),
                 {path.back(), s});
    for (size_t j = 0; j < i; ++j) require_mergeable(tree, path, paths[j].back(), s);
  }

  std::vector<Stmt> bodies, stmts;
  Annotations notes;
  for (const Path& p : paths) {
    const ForNode& loop = loop_of(p.back());
    bodies.push_back(substitute(loop.body, {{loop.var.get(), first.var}}));
    notes.insert(loop.annotations.begin(), loop.annotations.end());
  }
  Stmt merged = make_for(first.var, first.min, first.extent, ForKind::Serial,
                         make_seq(std::move(bodies)), notes);
  for (size_t i = 0; i < seq->stmts.size(); ++i) {
    if (i == at) stmts.push_back(merged);
    if (i < at || i >= at + paths.size()) stmts.push_back(seq->stmts[i]);
  }
  Path parent(path.begin(), path.end() - 1);
  return {{tree.replaced(parent, make_seq(std::move(stmts))), module.packs}, {loops[0]}};
}

Applied AddUnitLoop::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Path path = tree.block(block);
  tree.require(path.size() > 1, RefusalKind::BadStructure,
               fmt::format("block '{}' is the whole program", block), {path.back()});
  Var unit(fresh_name(module.main, block + "_u"));
  Stmt loop = make_for(unit, Expr(0), Expr(1), ForKind::Serial, path.back());
  return {{tree.replaced(path, loop), module.packs}, {unit.name()}};
}

std::vector<PrimitiveEntry> loop_primitives() {
  return {primitive_entry<Split>(), primitive_entry<Fuse>(), primitive_entry<Reorder>(),
          primitive_entry<Merge>(), primitive_entry<AddUnitLoop>()};
}

}  // namespace tilewright
