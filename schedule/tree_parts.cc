// The functions of schedule/tree.h that make nodes, names and summaries of blocks.
#include <algorithm>

#include <fmt/core.h>

#include "ir/visitor.h"
#include "schedule/tree.h"

namespace tilewright {

Stmt with_body(const ForNode& loop, const Stmt& body) {
  return make_for(loop.var, loop.min, loop.extent, loop.for_kind, body, loop.annotations);
}
Stmt with_body(const BlockNode& block, const Stmt& body) {
  return make_block(block.name, block.iters, body, block.init, block.predicate, block.allocs,
                    block.annotations);
}
Stmt with_kind(const ForNode& loop, ForKind kind) {
  return make_for(loop.var, loop.min, loop.extent, kind, loop.body, loop.annotations);
}
Stmt with_bindings(const BlockNode& block, std::vector<IterVar> iters, const Expr& predicate) {
  return make_block(block.name, std::move(iters), block.body, block.init, predicate, block.allocs,
                    block.annotations);
}
Stmt with_allocs(const BlockNode& block, std::vector<Buffer> allocs) {
  return make_block(block.name, block.iters, block.body, block.init, block.predicate,
                    std::move(allocs), block.annotations);
}
Program add_alloc(const Program& program, std::string_view scope, const Buffer& buffer) {
  Path path = path_to_block(program.body, scope);
  auto* block = path.back().as<BlockNode>();
  std::vector<Buffer> allocs = block->allocs;
  allocs.push_back(buffer);
  return replace_stmt(program, block, with_allocs(*block, std::move(allocs)));
}
Stmt wrap_loops(const std::vector<Stmt>& loops, Stmt body) {
  for (size_t i = loops.size(); i-- > 0;) body = with_body(*loops[i].as<ForNode>(), body);
  return body;
}

Names::Names(const Program& program) {
  for (const Param& param : program.params) used_.insert(param.buffer->name);
  for (const DimVar& dim : program.dims) used_.insert(dim.var.name());
  for_each_stmt(program.body, [&](const Stmt& s) {
    if (auto* loop = s.as<ForNode>()) used_.insert(loop->var.name());
    if (auto* block = s.as<BlockNode>()) {
      used_.insert(block->name);
      for (const IterVar& iter : block->iters) used_.insert(iter.var.name());
      for (const Buffer& buffer : block->allocs) used_.insert(buffer->name);
    }
  });
}

std::string Names::fresh(const std::string& base) {
  std::string name = base;
  for (int i = 1; !used_.insert(name).second; ++i) name = fmt::format("{}_{}", base, i);
  return name;
}

std::string fresh_name(const Program& program, const std::string& base) {
  return Names(program).fresh(base);
}

LoopUse use_of(const BlockNode& block, const Expr& loop_var) {
  LoopUse use;
  for (const IterVar& iter : block.iters) {
    if (!uses_var(iter.binding, loop_var)) continue;
    (iter.kind == IterKind::Spatial ? use.spatial : use.reduce) = true;
  }
  return use;
}

namespace {

void add_once(std::vector<Buffer>& list, const Buffer& buffer) {
  if (std::find(list.begin(), list.end(), buffer) == list.end()) list.push_back(buffer);
}

bool share(const std::vector<Buffer>& a, const std::vector<Buffer>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Buffer& buffer) {
    return std::find(b.begin(), b.end(), buffer) != b.end();
  });
}

}  // namespace

bool contains(const std::vector<Buffer>& list, const Buffer& buffer) {
  return std::find(list.begin(), list.end(), buffer) != list.end();
}

std::vector<Buffer> buffers_read(const BlockNode& block) {
  std::vector<Buffer> found;
  auto visit = [&](const Expr& e) {
    if (auto* load = e.as<LoadNode>()) add_once(found, load->buffer);
  };
  if (block.init.defined()) for_each_expr(block.init, visit);
  for_each_expr(block.body, visit);
  return found;
}

std::vector<Buffer> buffers_written(const BlockNode& block) {
  std::vector<Buffer> found;
  auto visit = [&](const Stmt& s) {
    if (auto* store = s.as<StoreNode>()) add_once(found, store->buffer);
  };
  if (block.init.defined()) for_each_stmt(block.init, visit);
  for_each_stmt(block.body, visit);
  return found;
}

std::vector<Stmt> producers_of(const Stmt& scope, const BlockNode& block) {
  std::vector<Stmt> found;
  std::vector<Buffer> reads = buffers_read(block);
  for (const Stmt& other : child_blocks(scope)) {
    auto* node = other.as<BlockNode>();
    if (node != &block && share(buffers_written(*node), reads)) found.push_back(other);
  }
  return found;
}

std::vector<Stmt> consumers_of(const Stmt& scope, const BlockNode& block) {
  std::vector<Stmt> found;
  std::vector<Buffer> writes = buffers_written(block);
  for (const Stmt& other : child_blocks(scope)) {
    auto* node = other.as<BlockNode>();
    if (node != &block && share(buffers_read(*node), writes)) found.push_back(other);
  }
  return found;
}

}  // namespace tilewright
