#include "schedule/primitives/blocks/move.h"

#include <fmt/core.h>

#include "schedule/primitives/nest.h"
#include "schedule/primitives/region.h"

namespace tilewright {
namespace {

void check_places(const Tree& tree, const Move& m) {
  const std::string& block = m.node().name;
  const std::string& loop = m.target().var.name();
  tree.require(child_blocks(m.block).empty(), RefusalKind::BadStructure,
               fmt::format("block '{}' holds other blocks; only a leaf block can be moved", block),
               {m.block});
  tree.require(path_to(m.loop, m.block.get()).empty(), RefusalKind::BadStructure,
               fmt::format("block '{}' already stands under loop '{}'", block, loop),
               {m.block, m.loop});
  tree.require(scope_of(m.loop_path).same_as(m.scope), RefusalKind::BadStructure,
               fmt::format("loop '{}' is not in the scope of block '{}'", loop, block),
               {m.block, m.loop});
  for (const Stmt& s : m.loop_path) {
    auto* around = s.as<ForNode>();
    tree.require(!around || around->for_kind != ForKind::Vectorized, RefusalKind::BadStructure,
                 fmt::format("block '{}' cannot move under the vectorized loop '{}'", block,
                             around ? around->var.name() : ""),
                 {s});
  }
}

void check_writes(const Tree& tree, Move& m) {
  const std::string& name = m.node().name;
  std::vector<Buffer> written = buffers_written(m.node());
  tree.require(written.size() == 1, RefusalKind::Unsupported,
               fmt::format("block '{}' writes {} buffers; one is supported", name, written.size()),
               {m.block});
  m.written = written[0];
  for (const Stmt& other : leaf_blocks(tree.program().body)) {
    if (other.same_as(m.block)) continue;
    for (const Buffer& buffer : buffers_written(*other.as<BlockNode>())) {
      tree.require(buffer != m.written, RefusalKind::Dependence,
                   fmt::format("block '{}' also writes '{}', the buffer of block '{}'",
                               other.as<BlockNode>()->name, buffer->name, name),
                   {m.block, other});
    }
  }
}

}  // namespace

Move::Move(const Tree& tree, const std::string& block_name, const std::string& loop_name)
    : block_path(tree.block(block_name)), loop_path(tree.loop(loop_name)) {
  block = block_path.back();
  loop = loop_path.back();
  scope = scope_of(block_path);
  check_places(tree, *this);
  check_writes(tree, *this);
  Analyzer around = tree.analyzer_at(block_path);
  tree.require(is_domain_predicate(around, node()), RefusalKind::Unsupported,
               fmt::format("the predicate of block '{}' does not follow from the extents of its "
                           "iterators",
                           block_name),
               {block});
}

bool Move::under_loop(const Stmt& other) const { return !path_to(loop, other.get()).empty(); }

std::vector<Stmt> Move::statements() const {
  if (auto* seq = target().body.as<SeqNode>()) return seq->stmts;
  return {target().body};
}

Path Move::inside() const {
  Path body = loop_path;
  body.push_back(target().body);
  return body;
}

Analyzer Move::analyzer(const Tree& tree) const { return tree.analyzer_at(inside()); }

Module Move::moved(const Tree& tree, const Module& module, const std::vector<Range>& ranges,
                   size_t position, const Expr& guard) const {
  Program taken = replace_stmt(module.main, block.get(), Stmt());
  Names names(taken);
  Analyzer known = analyzer(tree);
  std::vector<Stmt> stmts = statements();
  stmts.insert(stmts.begin() + static_cast<std::ptrdiff_t>(position),
               make_nest(node(), ranges, known, names, guard));
  Module result = module;
  result.main = replace_stmt(taken, loop.get(), with_body(target(), make_seq(std::move(stmts))));
  return result;
}

}  // namespace tilewright
