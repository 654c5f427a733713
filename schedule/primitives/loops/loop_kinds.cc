#include "schedule/primitives/loops/loop_kinds.h"

#include <fmt/core.h>

#include <bit>

#include "ir/visitor.h"
#include "schedule/dependence.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/loops/reduction.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

bool is_axis(ForKind kind) { return kind >= ForKind::BlockX; }

void require_no_kind(const Tree& tree, const Stmt& s) {
  tree.require(
      loop_of(s).for_kind == ForKind::Serial, RefusalKind::BadStructure,
      fmt::format("loop '{}' is already {}", loop_of(s).var.name(), name_of(loop_of(s).for_kind)),
      {s});
}

void require_constant(const Tree& tree, const Stmt& s) {
  tree.require(as_int(loop_of(s).extent).has_value(), RefusalKind::BadStructure,
               fmt::format("loop '{}' has no constant extent", loop_of(s).var.name()), {s});
}

// Refuses when another loop of that kind stands around or under the one at the end of `path`.
void require_no_nesting(const Tree& tree, const Path& path, ForKind kind) {
  auto check = [&](const Stmt& other, const char* where) {
    auto* loop = other.as<ForNode>();
    if (!loop || loop->for_kind != kind || other.same_as(path.back())) return;
    tree.refuse(RefusalKind::BadStructure,
                fmt::format("loop '{}' {} loop '{}' is {} already", loop->var.name(), where,
                            loop_of(path.back()).var.name(), name_of(kind)),
                {other, path.back()});
  };
  for (const Stmt& s : all_loops_above(path)) check(s, "around");
  for_each_stmt(path.back(), [&](const Stmt& s) { check(s, "under"); });
}

void require_innermost(const Tree& tree, const Stmt& s) {
  for_each_stmt(loop_of(s).body, [&](const Stmt& child) {
    auto* loop = child.as<ForNode>();
    tree.require(loop == nullptr, RefusalKind::BadStructure,
                 fmt::format("loop '{}' is not innermost: loop '{}' is under it",
                             loop_of(s).var.name(), loop ? loop->var.name() : ""),
                 {s, child});
  });
}

// The loop at the end of `path` is a reduction, or stands around one (vectorize_reduction).
void require_reduction(const Tree& tree, const Path& path) {
  std::vector<Stmt> loops = {path.back()};
  Stmt at = loop_of(path.back()).body;
  if (auto* inner = at.as<ForNode>()) {
    loops.push_back(at);
    at = inner->body;
  }
  for (const Stmt& s : loops) require_constant(tree, s);
  const std::string& name = loop_of(path.back()).var.name();
  auto* block = at.as<BlockNode>();
  auto* store = block ? block->body.as<StoreNode>() : nullptr;
  const Reducer reducer = store ? match_update(*store).reducer : Reducer::None;
  tree.require(reducer == Reducer::Sum || reducer == Reducer::Max, RefusalKind::BadStructure,
               fmt::format("under loop '{}' stands more than a loop around one block that adds or "
                           "takes a maximum",
                           name),
               {at});
  tree.require(!block->init.defined(), RefusalKind::BadStructure,
               fmt::format("block '{}' has an init; decompose its reduction first", block->name),
               {at});
  const LoopUse inner = use_of(*block, loop_of(loops.back()).var);
  tree.require(inner.reduce && !inner.spatial, RefusalKind::BadStructure,
               fmt::format("loop '{}' is no reduction of block '{}'",
                           loop_of(loops.back()).var.name(), block->name),
               {loops.back(), at});
  if (loops.size() == 1) return;
  require_no_kind(tree, loops.back());
  const LoopUse outer = use_of(*block, loop_of(path.back()).var);
  const auto extent = static_cast<uint64_t>(*as_int(loop_of(path.back()).extent));
  const bool apart = outer.spatial || extent == 1;  // different results
  tree.require(apart && !outer.reduce && std::has_single_bit(extent), RefusalKind::BadStructure,
               fmt::format("loop '{}' does not hold a power of two of results of block '{}'", name,
                           block->name),
               {path.back(), at});
}

// Checks the conditions on a loop of kind `kind`, whichever kind it has now.
void require_legal_kind(const Tree& tree, const Path& path, ForKind kind) {
  const Stmt& s = path.back();
  if (kind == ForKind::Vectorized && loop_of(s).annotations.contains(kReduceLanes)) {
    require_reduction(tree, path);
  } else if (kind == ForKind::Vectorized) {
    require_constant(tree, s);
    require_innermost(tree, s);
    require_independent(tree, path, /*may_privatize=*/false);
  } else if (kind == ForKind::Parallel || is_axis(kind)) {
    require_no_nesting(tree, path, kind);
    require_independent(tree, path, /*may_privatize=*/true);
  } else if (kind == ForKind::Unrolled) {
    require_constant(tree, s);
  }
}

Applied set_kind(std::string_view primitive, const Module& module, const std::string& loop,
                 ForKind kind) {
  Tree tree(primitive, module.main);
  Path path = tree.loop(loop);
  require_no_kind(tree, path.back());
  require_legal_kind(tree, path, kind);
  Stmt changed = with_kind(loop_of(path.back()), kind);
  return {{replace_stmt(module.main, path.back().get(), changed), module.packs}, {}};
}

void require_key(const Tree& tree, const std::string& key) {
  if (key.empty()) tree.bad_argument("key", "a name", "\"\"");
}

}  // namespace

void require_legal_kinds(const Tree& tree, const Stmt& s) {
  for_each_stmt(s, [&](const Stmt& child) {
    auto* loop = child.as<ForNode>();
    if (!loop || loop->for_kind == ForKind::Serial) return;
    require_legal_kind(tree, path_to(tree.program().body, loop), loop->for_kind);
  });
}

Applied Parallel::apply(const Module& module) const {
  return set_kind(kName, module, loop, ForKind::Parallel);
}

Applied Vectorize::apply(const Module& module) const {
  return set_kind(kName, module, loop, ForKind::Vectorized);
}

Applied VectorizeReduction::apply(const Module& module) const {
  Tree tree(kName, module.main);
  const Path path = tree.loop(loop);
  require_no_kind(tree, path.back());
  require_reduction(tree, path);
  const ForNode& old = loop_of(path.back());
  Annotations notes = old.annotations;
  notes[kReduceLanes] = 1;
  const Stmt changed = make_for(old.var, old.min, old.extent, ForKind::Vectorized, old.body, notes);
  return {{replace_stmt(module.main, path.back().get(), changed), module.packs}, {}};
}

Applied Unroll::apply(const Module& module) const {
  return set_kind(kName, module, loop, ForKind::Unrolled);
}

Applied Bind::apply(const Module& module) const {
  if (!is_axis(axis)) {
    Tree(kName, module.main)
        .bad_argument("axis", "block_x to thread_z, or warp", std::string(name_of(axis)));
  }
  return set_kind(kName, module, loop, axis);
}

Applied AnnotateLoop::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Path path = tree.loop(loop);
  require_key(tree, key);
  const ForNode& old = loop_of(path.back());
  Annotations notes = old.annotations;
  notes[key] = value;
  Stmt changed = make_for(old.var, old.min, old.extent, old.for_kind, old.body, notes);
  return {{replace_stmt(module.main, path.back().get(), changed), module.packs}, {}};
}

Applied AnnotateBlock::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Path path = tree.block(block);
  require_key(tree, key);
  const BlockNode& old = *path.back().as<BlockNode>();
  Annotations notes = old.annotations;
  notes[key] = value;
  Stmt changed =
      make_block(old.name, old.iters, old.body, old.init, old.predicate, old.allocs, notes);
  return {{replace_stmt(module.main, path.back().get(), changed), module.packs}, {}};
}

std::vector<PrimitiveEntry> loop_kind_primitives() {
  return {primitive_entry<Parallel>(),
          primitive_entry<Vectorize>(),
          primitive_entry<VectorizeReduction>(),
          primitive_entry<Unroll>(),
          primitive_entry<Bind>(),
          primitive_entry<AnnotateLoop>(),
          primitive_entry<AnnotateBlock>()};
}

}  // namespace tilewright
