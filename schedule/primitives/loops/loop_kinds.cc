#include "schedule/primitives/loops/loop_kinds.h"

#include <fmt/core.h>

#include "ir/visitor.h"
#include "schedule/dependence.h"
#include "schedule/primitive_json.h"
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

// Checks the conditions on a loop of kind `kind`, whichever kind it has now.
void require_legal_kind(const Tree& tree, const Path& path, ForKind kind) {
  const Stmt& s = path.back();
  if (kind == ForKind::Vectorized) {
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
  return {primitive_entry<Parallel>(),     primitive_entry<Vectorize>(),
          primitive_entry<Unroll>(),       primitive_entry<Bind>(),
          primitive_entry<AnnotateLoop>(), primitive_entry<AnnotateBlock>()};
}

}  // namespace tilewright
