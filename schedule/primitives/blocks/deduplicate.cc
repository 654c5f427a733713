#include "schedule/primitives/blocks/deduplicate.h"

#include <fmt/core.h>

#include <algorithm>

#include "ir/compare.h"
#include "ir/visitor.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/pointwise.h"

namespace tilewright {
namespace {

// True when both store the same values at the same indices, up to the names of iterators.
bool store_alike(const Pointwise& a, const Pointwise& b) {
  const Buffer &x = a.store->buffer, &y = b.store->buffer;
  if (x->elem != y->elem || x->scope != y->scope || !equal_all(x->shape, y->shape)) return false;
  if (a.block->iters.size() != b.block->iters.size()) return false;
  VarMap names;
  for (size_t i = 0; i < a.block->iters.size(); ++i) {
    if (!equal(a.block->iters[i].extent, b.block->iters[i].extent)) return false;
    names[a.block->iters[i].var.get()] = b.block->iters[i].var;
  }
  std::vector<Expr> indices;
  for (const Expr& e : a.store->indices) indices.push_back(substitute(e, names));
  return equal_all(indices, b.store->indices) &&
         equal(substitute(a.store->value, names), b.store->value);
}

// Requires that the block's loops hold no other block: then it stores everything that is ever read.
void require_alone(const Tree& tree, const Pointwise& p) {
  const std::vector<Stmt> loops = all_loops_above(p.path);
  const bool alone = loops.empty() || leaf_blocks(loops.front()).size() == 1;
  tree.require(alone, RefusalKind::BadStructure,
               fmt::format("block '{}' shares its loops with other blocks; duplicates go before "
                           "blocks are moved",
                           p.block->name),
               {p.stmt()});
}

// Refuses when a buffer that `reader` reads is written after it.
void require_unchanged(const Tree& tree, const Pointwise& reader) {
  const std::vector<Buffer> read = buffers_read(*reader.block);
  const std::vector<Stmt> order = leaf_blocks(tree.program().body);
  auto at = std::find_if(order.begin(), order.end(),
                         [&](const Stmt& s) { return s.same_as(reader.stmt()); });
  for (; at != order.end(); ++at) {
    for (const Buffer& b : buffers_written(*at->as<BlockNode>())) {
      tree.require(std::find(read.begin(), read.end(), b) == read.end(), RefusalKind::Dependence,
                   fmt::format("block '{}' writes '{}', which block '{}' has read before",
                               at->as<BlockNode>()->name, b->name, reader.block->name),
                   {reader.stmt(), *at});
    }
  }
}

}  // namespace

Applied Deduplicate::apply(const Module& module) const {
  Tree tree(kName, module.main);
  const Pointwise mine = Pointwise::find(tree, block), first = Pointwise::find(tree, like);
  for (const Pointwise* p : {&first, &mine}) {
    require_intermediate(tree, p->store->buffer, "it is needed outside", {p->stmt()});
    require_only_writer(tree, p->stmt(), p->store->buffer);
    require_alone(tree, *p);
  }
  const std::vector<Stmt> order = leaf_blocks(module.main.body);
  auto place = [&](const Pointwise& p) {
    return std::find_if(order.begin(), order.end(),
                        [&](const Stmt& s) { return s.same_as(p.stmt()); });
  };
  tree.require(place(first) < place(mine), RefusalKind::Dependence,
               fmt::format("block '{}' does not stand before block '{}'", like, block),
               {first.stmt(), mine.stmt()});
  tree.require(
      store_alike(mine, first), RefusalKind::Unsupported,
      fmt::format("blocks '{}' and '{}' do not store the same values in buffers of the same "
                  "type, shape and scope",
                  like, block),
      {first.stmt(), mine.stmt()});
  require_unchanged(tree, first);

  const Buffer from = mine.store->buffer;
  Program program = without_buffer(replace_stmt(module.main, mine.stmt().get(), Stmt()), from);
  program.body = replace_buffers(program.body, BufferMap{{from.get(), first.store->buffer}});
  return {{std::move(program), module.packs}, {}};
}

std::vector<PrimitiveEntry> deduplicate_primitives() { return {primitive_entry<Deduplicate>()}; }

}  // namespace tilewright
