#include "schedule/primitives/loops/reduction.h"

#include <algorithm>

#include <fmt/core.h>

#include "ir/compare.h"
#include "ir/visitor.h"
#include "schedule/affine.h"
#include "schedule/primitive_json.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

bool uses_any(const Expr& e, const std::vector<Stmt>& loops) {
  return std::any_of(loops.begin(), loops.end(),
                     [&](const Stmt& s) { return uses_var(e, loop_of(s).var); });
}

// True when the init stores the identity of `reducer`.
bool starts_at_identity(const BlockNode& block, const StoreNode& update, Reducer reducer) {
  auto* init = block.init.as<StoreNode>();
  return init && init->buffer == update.buffer &&
         equal(init->value, identity_of(reducer, Type(update.buffer->elem)));
}

bool same_element(const Expr& e, const StoreNode& store) {
  auto* load = e.as<LoadNode>();
  return load && load->buffer == store.buffer &&
         std::equal(load->indices.begin(), load->indices.end(), store.indices.begin(),
                    [](const Expr& a, const Expr& b) { return equal(a, b); });
}

// Copies of a block's spatial iterators with new variables; `renamed` maps old variables to new
// ones.
std::vector<IterVar> copy_spatial(const BlockNode& block, const VarMap& loops, VarMap& renamed) {
  std::vector<IterVar> iters;
  for (const IterVar& iter : block.iters) {
    if (iter.kind != IterKind::Spatial) continue;
    Var var(iter.var.name());
    renamed[iter.var.get()] = var;
    iters.push_back({var, iter.extent, IterKind::Spatial, substitute(iter.binding, loops)});
  }
  return iters;
}

Stmt copy_loop(const ForNode& loop, const Var& var, const VarMap& map, ForKind kind, Stmt body) {
  return make_for(var, substitute(loop.min, map), substitute(loop.extent, map), kind,
                  std::move(body));
}

// The use of each loop of a nest in a block; refuses a loop that is bound to both kinds of
// iterators.
std::vector<LoopUse> uses_of(const Tree& tree, const Stmt& block, const std::vector<Stmt>& loops) {
  std::vector<LoopUse> uses;
  for (const Stmt& s : loops) {
    uses.push_back(use_of(block_of(block), loop_of(s).var));
    tree.require(!uses.back().spatial || !uses.back().reduce, RefusalKind::Unsupported,
                 fmt::format("loop '{}' takes part in spatial and reduce iterators of block '{}'",
                             loop_of(s).var.name(), block_of(block).name),
                 {s, block});
  }
  return uses;
}

}  // namespace

Reduction match_update(const StoreNode& store) {
  auto* update = store.value.as<BinaryNode>();
  if (!update || store.predicate.defined()) return {};
  Reducer reducer = update->op == BinaryOp::Add   ? Reducer::Sum
                    : update->op == BinaryOp::Max ? Reducer::Max
                    : update->op == BinaryOp::Min ? Reducer::Min
                                                  : Reducer::None;
  bool left = same_element(update->a, store);
  if (reducer == Reducer::None || (!left && !same_element(update->b, store))) return {};
  Expr value = left ? update->b : update->a;
  bool reads_itself = false;
  for_each_expr(value, [&](const Expr& e) {
    auto* load = e.as<LoadNode>();
    reads_itself |= load && load->buffer == store.buffer;
  });
  if (reads_itself) return {};
  return {&store, reducer, value};
}

Reduction match_reduction(const BlockNode& block) {
  auto* store = block.body.as<StoreNode>();
  const Reduction update = store ? match_update(*store) : Reduction{};
  const bool starts = update.store && starts_at_identity(block, *store, update.reducer);
  return starts ? update : Reduction{};
}

namespace {

// The init block in its copied loops, for decompose_reduction. `inner` are the loops from the one
// that the init precedes down to the block.
Stmt make_init(const Tree& tree, const Path& path, const std::vector<Stmt>& inner,
               const std::vector<LoopUse>& uses, const std::string& name, Names& names) {
  const BlockNode& block = block_of(path.back());
  VarMap map;
  std::vector<Var> copies(inner.size());
  for (size_t i = 0; i < inner.size(); ++i) {
    const ForNode& loop = loop_of(inner[i]);
    if (uses[i].spatial) copies[i] = Var(names.fresh(loop.var.name() + "_init"));
    map[loop.var.get()] = uses[i].spatial ? Expr(copies[i]) : loop.min;
  }
  VarMap renamed;
  std::vector<IterVar> iters = copy_spatial(block, map, renamed);
  Analyzer known = tree.analyzer_at(path);
  Expr predicate;
  for (const Expr& condition : conjuncts(block.predicate)) {
    Expr at_start = known.simplify(substitute(condition, map));
    if (!is_int(at_start, 1)) predicate = conjunction(predicate, at_start);
  }
  Stmt nest = make_block(name, std::move(iters), substitute(block.init, renamed), {}, predicate);
  for (size_t i = inner.size(); i-- > 0;) {
    if (!uses[i].spatial) continue;
    nest = copy_loop(loop_of(inner[i]), copies[i], map, loop_of(inner[i]).for_kind, nest);
  }
  return nest;
}

// Refuses when an init that runs once before `inner`'s loops would not suffice.
void require_decomposable(const Tree& tree, const Path& path, const std::vector<Stmt>& outer,
                          const std::vector<Stmt>& inner) {
  const BlockNode& block = block_of(path.back());
  for (const Stmt& s : outer) {
    tree.require(!use_of(block, loop_of(s).var).reduce, RefusalKind::Dependence,
                 fmt::format("the reduction of block '{}' starts in loop '{}', outside of loop "
                             "'{}'",
                             block.name, loop_of(s).var.name(), loop_of(inner[0]).var.name()),
                 {s, path.back()});
  }
  std::vector<IndexForm> bindings;
  for (const IterVar& iter : block.iters) bindings.push_back({iter.binding, 0});
  Analyzer known = tree.analyzer_at(path);
  std::set<const ExprNode*> told = recoverable(bindings, inner, known);
  for (const Stmt& s : inner) {
    tree.require(told.count(loop_of(s).var.get()) > 0, RefusalKind::Dependence,
                 fmt::format("loop '{}' may repeat iterations of block '{}', which need an init of "
                             "their own",
                             loop_of(s).var.name(), block.name),
                 {s, path.back()});
  }
}

}  // namespace

Applied DecomposeReduction::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Path path = tree.block(block);
  const BlockNode& old = block_of(path.back());
  Path at = tree.loop(loop);
  tree.require(old.init.defined(), RefusalKind::BadStructure,
               fmt::format("block '{}' has no init", block), {path.back()});
  std::vector<Stmt> loops = loops_above(path);
  auto found =
      std::find_if(loops.begin(), loops.end(), [&](const Stmt& s) { return s.same_as(at.back()); });
  tree.require(found != loops.end(), RefusalKind::BadStructure,
               fmt::format("loop '{}' does not stand around block '{}'", loop, block),
               {at.back(), path.back()});
  std::vector<Stmt> outer(loops.begin(), found), inner(found, loops.end());
  for (size_t i = at.size(); i < path.size(); ++i) {
    tree.require(!path[i].as<IfNode>(), RefusalKind::Unsupported,
                 fmt::format("block '{}' stands under a condition", block), {path[i]});
  }
  std::vector<LoopUse> uses = uses_of(tree, path.back(), inner);
  require_decomposable(tree, path, outer, inner);

  Names names(module.main);
  std::string name = names.fresh(block + "_init");
  Stmt init = make_init(tree, path, inner, uses, name, names);
  Stmt update =
      make_block(old.name, old.iters, old.body, {}, old.predicate, old.allocs, old.annotations);
  Stmt nest = replace_stmt(at.back(), path.back().get(), update);
  return {{tree.replaced(at, make_seq({init, nest})), module.packs}, {name}};
}

namespace {

// The decomposition of a nest by rfactor.
struct Factoring {
  Path path;                  // to the block
  std::vector<Stmt> loops;    // loops of the nest
  std::vector<LoopUse> uses;  // uses of the loops
  size_t at = 0;              // position of the loop that becomes an axis
  Reduction reduction;
  Buffer partial;
  size_t axis = 0;  // dimension of `partial`

  const BlockNode& block() const { return block_of(path.back()); }
  // Whether the nest that reduces the partial results has the loop. It has none of the reduction but the
  // new axis, and none that no iterator is bound to: a condition lets such a loop run once.
  bool is_final(size_t i) const {
    if (i == at) return true;
    return !uses[i].reduce && (uses[i].spatial || is_int(loop_of(loops[i]).extent, 1));
  }
  std::vector<Expr> partial_indices(const VarMap& renamed, const Expr& axis_index) const {
    std::vector<Expr> indices;
    for (const Expr& e : reduction.store->indices) indices.push_back(substitute(e, renamed));
    indices.insert(indices.begin() + static_cast<std::ptrdiff_t>(axis), axis_index);
    return indices;
  }
};

Factoring analyze_rfactor(const Tree& tree, const std::string& block, const std::string& loop,
                          int factor_axis) {
  Factoring f;
  f.path = tree.block(block);
  Path at = tree.loop(loop);
  f.reduction = match_reduction(f.block());
  tree.require(
      f.reduction.value.defined(), RefusalKind::BadStructure,
      fmt::format("block '{}' is not a reduction by a sum, max or min from its identity", block),
      {f.path.back()});
  f.loops = loops_above(f.path);
  size_t nest = scope_path(f.path).size();
  while (nest < f.path.size() && f.path[nest].as<SeqNode>()) ++nest;
  for (size_t i = nest; i + 1 < f.path.size(); ++i) {
    tree.require(f.path[i].as<ForNode>() != nullptr, RefusalKind::BadStructure,
                 fmt::format("the nest around block '{}' branches", block), {f.path[i]});
  }
  auto found = std::find_if(f.loops.begin(), f.loops.end(),
                            [&](const Stmt& s) { return s.same_as(at.back()); });
  tree.require(found != f.loops.end(), RefusalKind::BadStructure,
               fmt::format("loop '{}' does not stand around block '{}'", loop, block),
               {at.back(), f.path.back()});
  f.at = static_cast<size_t>(found - f.loops.begin());
  f.uses = uses_of(tree, f.path.back(), f.loops);
  tree.require(f.uses[f.at].reduce, RefusalKind::BadStructure,
               fmt::format("loop '{}' takes no part in the reduction of block '{}'", loop, block),
               {at.back(), f.path.back()});
  for (const Stmt& s : f.loops) {
    bool plain = is_int(loop_of(s).min, 0) && !uses_any(loop_of(s).extent, f.loops);
    tree.require(
        plain, RefusalKind::Unsupported,
        fmt::format("loop '{}' does not run from 0 to an extent of its own", loop_of(s).var.name()),
        {s});
  }
  for (const Expr& condition : conjuncts(f.block().predicate)) {
    const auto uses = [&](auto&& kind) {
      for (size_t i = 0; i < f.loops.size(); ++i) {
        if (kind(i) && uses_var(condition, loop_of(f.loops[i]).var)) return true;
      }
      return false;
    };
    const bool joined = uses([&](size_t i) { return !f.uses[i].reduce && !f.is_final(i); }) &&
                        uses([&](size_t i) { return f.uses[i].spatial; });
    tree.require(!joined, RefusalKind::Unsupported,
                 fmt::format("a condition on block '{}' joins a spatial loop with one that no "
                             "iterator is bound to",
                             block),
                 {f.path.back()});
  }
  const Buffer& buffer = f.reduction.store->buffer;
  int rank = buffer->rank();
  if (factor_axis < -rank - 1 || factor_axis > rank) {
    tree.bad_argument("factor_axis", fmt::format("{} to {}", -rank - 1, rank),
                      std::to_string(factor_axis), {f.path.back()});
  }
  f.axis = static_cast<size_t>(factor_axis < 0 ? factor_axis + rank + 1 : factor_axis);
  return f;
}

// The block of partial results. Conditions on the new axis guard the value, not the block. Every
// element of the partial result must be written, even where no term belongs to it.
Stmt make_partial(const Tree& tree, const Factoring& f, const std::string& name) {
  const BlockNode& old = f.block();
  VarMap renamed, from_loops;
  std::vector<IterVar> iters = copy_spatial(old, {}, renamed);
  bool reduces = false;
  for (size_t i = 0; i < f.loops.size(); ++i) {
    if (!f.uses[i].reduce) continue;
    const ForNode& loop = loop_of(f.loops[i]);
    Var var("v" + loop.var.name());
    IterKind kind = i == f.at ? IterKind::Spatial : IterKind::Reduce;
    reduces |= i != f.at;
    from_loops[loop.var.get()] = var;
    iters.push_back({var, loop.extent, kind, loop.var});
  }
  for (const IterVar& iter : old.iters) {
    if (iter.kind == IterKind::Reduce) {
      renamed[iter.var.get()] = substitute(iter.binding, from_loops);
    }
  }
  const Var& axis = loop_of(f.loops[f.at]).var;
  Expr predicate, guard;
  for (const Expr& condition : conjuncts(old.predicate)) {
    if (!uses_var(condition, axis)) {
      predicate = conjunction(predicate, condition);
      continue;
    }
    Expr of_iters = substitute(condition, from_loops);
    tree.require(!uses_any(of_iters, f.loops), RefusalKind::Unsupported,
                 fmt::format("a condition on block '{}' joins loop '{}' with spatial ones",
                             old.name, axis.name()),
                 {f.path.back()});
    guard = conjunction(guard, of_iters);
  }
  Type type(f.partial->elem);
  Expr identity = identity_of(f.reduction.reducer, type);
  Expr value = substitute(f.reduction.value, renamed);
  if (guard.defined()) value = select(guard, value, identity);
  std::vector<Expr> indices = f.partial_indices(renamed, from_loops.at(axis.get()));
  Stmt init;
  if (reduces) {
    init = make_store(f.partial, indices, identity);
    value = combine(f.reduction.reducer, load(f.partial, indices), value);
  }
  return make_block(name, std::move(iters), make_store(f.partial, indices, value), init, predicate,
                    {}, old.annotations);
}

// The block that reduces the partial results, in a nest of its own.
Stmt make_final(const Factoring& f, Names& names) {
  const BlockNode& old = f.block();
  const ForNode& axis_loop = loop_of(f.loops[f.at]);
  VarMap copies, renamed;
  for (size_t i = 0; i < f.loops.size(); ++i) {
    if (!f.is_final(i)) continue;
    const ForNode& loop = loop_of(f.loops[i]);
    copies[loop.var.get()] = Var(names.fresh(loop.var.name() + "_wb"));
  }
  std::vector<IterVar> iters = copy_spatial(old, copies, renamed);
  Var axis("v" + axis_loop.var.name());
  iters.push_back({axis, axis_loop.extent, IterKind::Reduce, copies.at(axis_loop.var.get())});
  Expr predicate;
  for (const Expr& condition : conjuncts(old.predicate)) {
    bool of_partial = false;
    for (size_t i = 0; i < f.loops.size(); ++i) {
      const bool is_left = f.uses[i].reduce || !f.is_final(i);
      of_partial |= is_left && uses_var(condition, loop_of(f.loops[i]).var);
    }
    if (!of_partial) predicate = conjunction(predicate, substitute(condition, copies));
  }
  std::vector<Expr> indices;
  for (const Expr& e : f.reduction.store->indices) indices.push_back(substitute(e, renamed));
  const Buffer& buffer = f.reduction.store->buffer;
  Expr value = combine(f.reduction.reducer, load(buffer, indices),
                       load(f.partial, f.partial_indices(renamed, axis)));
  Stmt nest = make_block(old.name, std::move(iters), make_store(buffer, indices, value),
                         substitute(old.init, renamed), predicate);
  for (size_t i = f.loops.size(); i-- > 0;) {
    const ForNode& loop = loop_of(f.loops[i]);
    auto copy = copies.find(loop.var.get());
    if (copy == copies.end()) continue;
    nest = copy_loop(loop, Var(copy->second), {}, ForKind::Serial, nest);
  }
  return nest;
}

}  // namespace

Applied Rfactor::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Factoring f = analyze_rfactor(tree, block, loop, factor_axis);
  Names names(module.main);
  std::string name = names.fresh(block + "_rf");
  const Buffer& buffer = f.reduction.store->buffer;
  std::vector<Expr> shape = buffer->shape;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(f.axis), loop_of(f.loops[f.at]).extent);
  std::string buffer_name = buffer->name == block ? name : names.fresh(buffer->name + "_rf");
  f.partial = make_buffer(buffer_name, buffer->elem, std::move(shape), buffer->scope);

  Stmt partial = wrap_loops(f.loops, make_partial(tree, f, name));
  Path nest = path_to(module.main.body, f.loops[0].get());
  Program program = tree.replaced(nest, make_seq({partial, make_final(f, names)}));
  return {{add_alloc(program, block_of(scope_of(f.path)).name, f.partial), module.packs}, {name}};
}

std::vector<PrimitiveEntry> reduction_primitives() {
  return {primitive_entry<DecomposeReduction>(), primitive_entry<Rfactor>(),
          primitive_entry<PadEinsum>()};
}

}  // namespace tilewright
