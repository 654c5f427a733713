#include "schedule/primitives/layout/pad_values.h"

#include <fmt/core.h>

#include <algorithm>

#include "ir/compare.h"
#include "ir/predicates.h"
#include "ir/visitor.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/layout/padding.h"
#include "schedule/primitives/loops/reduction.h"
#include "schedule/primitives/nest.h"
#include "schedule/primitives/pointwise.h"

namespace tilewright {
namespace {

// `value` where the condition holds, and `otherwise` elsewhere.
Expr guarded(const Expr& value, const Expr& cond, const Expr& otherwise) {
  if (auto* n = value.as<CastNode>(); n && is_zero(otherwise)) {
    return cast(n->type, guarded(n->value, cond, make_const(n->value.type(), 0)));
  }
  auto* choice = value.as<SelectNode>();
  if (choice && equal(choice->on_false, otherwise)) {
    return select(cond && choice->cond, choice->on_true, otherwise);
  }
  return select(cond, value, otherwise);
}

void require_indices(const Tree& tree, const Stmt& s, const StoreNode& store,
                     const PaddedExtents& padded) {
  for (const IterVar& iter : s.as<BlockNode>()->iters) {
    if (iter.kind != IterKind::Spatial || !padded.count(iter.var.get())) continue;
    bool indexed = std::any_of(store.indices.begin(), store.indices.end(),
                               [&](const Expr& e) { return e.same_as(iter.var); });
    tree.require(
        indexed && iter.binding.as<VarNode>(), RefusalKind::Unsupported,
        fmt::format("iterator '{}' of block '{}', which is to be padded, is no index of '{}'",
                    iter.var.name(), s.as<BlockNode>()->name, store.buffer->name),
        {s});
  }
}

}  // namespace

Applied PadValues::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Path path = tree.block(block);
  const Stmt& s = path.back();
  const BlockNode& old = *s.as<BlockNode>();
  std::vector<Stmt> loops = require_lowered(tree, path, "pad it");
  const PaddedExtents padded = padded_extents(tree, s, multiples);
  auto* store = old.body.as<StoreNode>();
  const Reduction reduction = old.init.defined() ? match_reduction(old) : Reduction{};
  tree.require(
      store && !store->predicate.defined() && (!old.init.defined() || reduction.value.defined()),
      RefusalKind::Unsupported,
      fmt::format("block '{}' neither stores one value nor reduces to it", block), {s});
  require_intermediate(tree, store->buffer,
                       fmt::format("block '{}' writes it", s.as<BlockNode>()->name), {s});
  require_only_writer(tree, s, store->buffer);
  require_indices(tree, s, *store, padded);
  if (padded.empty()) return {module, {}};

  Expr inside;
  std::vector<IterVar> iters = old.iters;
  std::vector<Expr> shape = store->buffer->shape;
  for (IterVar& iter : iters) {
    auto it = padded.find(iter.var.get());
    if (it == padded.end()) continue;
    inside = inside.defined() ? inside && iter.var < iter.extent : iter.var < iter.extent;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (store->indices[d].same_as(iter.var)) shape[d] = it->second;
    }
    iter.extent = it->second;
  }
  const Buffer to = with_shape(store->buffer, shape);
  Expr value;
  if (reduction.value.defined()) {
    auto* step = store->value.as<BinaryNode>();
    const Expr term =
        guarded(reduction.value, inside, identity_of(reduction.reducer, reduction.value.type()));
    const bool first = equal(step->a, reduction.value);
    value = binary(step->op, first ? term : step->a, first ? step->b : term);
  } else {
    value = guarded(store->value, inside, make_const(store->value.type(), 0));
  }
  Stmt nest = under_padded_loops(
      old, loops, padded,
      make_block(old.name, std::move(iters), make_store(store->buffer, store->indices, value),
                 old.init, {}, old.allocs, old.annotations));
  Program program = tree.replaced(path_to(module.main.body, loops[0].get()), nest);
  program.body = replace_buffers(program.body, BufferMap{{store->buffer.get(), to}});
  return {{std::move(program), module.packs}, {}};
}

std::vector<PrimitiveEntry> pad_values_primitives() { return {primitive_entry<PadValues>()}; }

}  // namespace tilewright
