#include "schedule/primitives/loops/tensorize.h"

#include <fmt/core.h>

#include "base/error.h"
#include "ir/visitor.h"
#include "schedule/primitive_json.h"
#include "schedule/tensor_match.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

// The loops from the one at `s` down to a block, and the block.
struct Chain {
  std::vector<Stmt> loops;
  Stmt block;
};

Chain require_chain(const Tree& tree, const Stmt& s) {
  Chain chain;
  Stmt at = s;
  while (auto* loop = at.as<ForNode>()) {
    tree.require(loop->for_kind == ForKind::Serial, RefusalKind::BadStructure,
                 fmt::format("loop '{}' is {}; an intrinsic takes the place of serial loops",
                             loop->var.name(), name_of(loop->for_kind)),
                 {at});
    chain.loops.push_back(at);
    at = loop->body;
  }
  auto* block = at.as<BlockNode>();
  tree.require(block && block->body.as<StoreNode>(), RefusalKind::BadStructure,
               fmt::format("under loop '{}' stands more than loops around one block that holds one "
                           "store",
                           s.as<ForNode>()->var.name()),
               {at});
  chain.block = at;
  return chain;
}

void require_plain(const Tree& tree, const Chain& chain) {
  const BlockNode& block = *chain.block.as<BlockNode>();
  tree.require(!block.init.defined(), RefusalKind::BadStructure,
               fmt::format("block '{}' has an init; decompose its reduction first", block.name),
               {chain.block});
  const StoreNode& store = *block.body.as<StoreNode>();
  tree.require(!store.predicate.defined(), RefusalKind::BadStructure,
               fmt::format("block '{}' stores under a predicate", block.name), {chain.block});
  if (!block.predicate.defined()) return;
  for (const Stmt& s : chain.loops) {
    const Var& var = s.as<ForNode>()->var;
    tree.require(!uses_var(block.predicate, var), RefusalKind::BadStructure,
                 fmt::format("the predicate of block '{}' depends on loop '{}': pad what the "
                             "intrinsic does not divide",
                             block.name, var.name()),
                 {s, chain.block});
  }
}

TensorNest nest_of(const Chain& chain) {
  const BlockNode& block = *chain.block.as<BlockNode>();
  VarMap bindings;
  for (const IterVar& iter : block.iters) bindings[iter.var.get()] = iter.binding;
  const StoreNode& store = *block.body.as<StoreNode>();
  TensorNest nest{{}, store.buffer, {}, substitute(store.value, bindings)};
  for (const Stmt& s : chain.loops) nest.loops.push_back(s.as<ForNode>());
  for (const Expr& index : store.indices) nest.indices.push_back(substitute(index, bindings));
  return nest;
}

TensorSemantics semantics_of(const Tree& tree, const std::string& text) {
  try {
    return TensorSemantics::parse(text);
  } catch (const Error& e) {
    tree.bad_argument("computes", "the spec of one sum of products of constant size", e.what());
  }
}

}  // namespace

Applied Tensorize::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Path path = tree.loop(loop);
  if (intrinsic.empty()) tree.bad_argument("intrinsic", "a name", "\"\"");
  TensorSemantics semantics = semantics_of(tree, computes);
  Chain chain = require_chain(tree, path.back());
  require_plain(tree, chain);
  Analyzer known = tree.analyzer_at(path);
  auto match = match_tensor(semantics, nest_of(chain), known);
  if (auto* reason = std::get_if<std::string>(&match)) {
    tree.refuse(RefusalKind::Unsupported,
                fmt::format("loop '{}' is not '{}': {}", loop, intrinsic, *reason), {path.back()});
  }
  const ForNode& old = *path.back().as<ForNode>();
  Annotations notes = old.annotations;
  notes["intrinsic"] = intrinsic;
  Stmt changed = make_for(old.var, old.min, old.extent, old.for_kind, old.body, notes);
  return {{replace_stmt(module.main, path.back().get(), changed), module.packs}, {}};
}

std::vector<PrimitiveEntry> tensorize_primitives() { return {primitive_entry<Tensorize>()}; }

}  // namespace tilewright
