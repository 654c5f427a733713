#include "schedule/primitives/pointwise.h"

#include <algorithm>

#include <fmt/core.h>

#include "schedule/primitives/region.h"

namespace tilewright {

Pointwise Pointwise::find(const Tree& tree, const std::string& name) {
  return of(tree, tree.block(name).back());
}

Pointwise Pointwise::of(const Tree& tree, const Stmt& s) {
  Pointwise p{path_to(tree.program().body, s.get()), s.as<BlockNode>(), nullptr};
  const std::string& name = p.block->name;
  tree.require(child_blocks(s).empty(), RefusalKind::BadStructure,
               fmt::format("block '{}' holds other blocks; a leaf block is needed", name), {s});
  bool reduces = p.block->init.defined() ||
                 std::any_of(p.block->iters.begin(), p.block->iters.end(),
                             [](const IterVar& i) { return i.kind == IterKind::Reduce; });
  tree.require(!reduces, RefusalKind::BadStructure,
               fmt::format("block '{}' is a reduction, which cannot be inlined", name), {s});
  p.store = p.block->body.as<StoreNode>();
  tree.require(p.store && !p.store->predicate.defined() && !p.store->is_async,
               RefusalKind::Unsupported,
               fmt::format("the body of block '{}' is not one unconditional store", name), {s});
  bool reads_itself = false;
  for (const Buffer& buffer : buffers_read(*p.block)) reads_itself |= buffer == p.store->buffer;
  tree.require(
      !reads_itself, RefusalKind::Dependence,
      fmt::format("block '{}' reads the buffer '{}' that it writes", name, p.store->buffer->name),
      {s});
  Analyzer known = tree.analyzer_at(p.path);
  tree.require(is_domain_predicate(known, *p.block), RefusalKind::Unsupported,
               fmt::format("the predicate of block '{}' does not follow from the extents of its "
                           "iterators",
                           name),
               {s});
  return p;
}

const LoadNode* element_of(const Expr& e) {
  auto* converted = e.as<CastNode>();
  auto* load = (converted ? converted->value : e).as<LoadNode>();
  return load && !load->predicate.defined() ? load : nullptr;
}

std::optional<std::vector<int>> iterators_of(const BlockNode& block,
                                             const std::vector<Expr>& indices,
                                             const std::vector<Expr>& shape) {
  std::vector<int> dims(block.iters.size(), -1);
  for (size_t d = 0; d < indices.size(); ++d) {
    if (is_int(indices[d], 0) && is_int(shape[d], 1)) continue;
    auto iter = std::find_if(block.iters.begin(), block.iters.end(),
                             [&](const IterVar& i) { return i.var.same_as(indices[d]); });
    if (iter == block.iters.end()) return std::nullopt;
    int& dim = dims[static_cast<size_t>(iter - block.iters.begin())];
    if (dim >= 0) return std::nullopt;
    dim = static_cast<int>(d);
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 && !is_int(block.iters[i].extent, 1)) return std::nullopt;
  }
  return dims;
}

VarMap iterators_at(const BlockNode& block, const std::vector<int>& dims,
                    const std::vector<Expr>& at) {
  VarMap map;
  for (size_t i = 0; i < dims.size(); ++i) {
    map[block.iters[i].var.get()] = dims[i] < 0 ? Expr(0) : at[static_cast<size_t>(dims[i])];
  }
  return map;
}

void require_intermediate(const Tree& tree, const Buffer& buffer, const std::string& what,
                          const std::vector<Stmt>& where) {
  for (const Param& param : tree.program().params) {
    tree.require(param.buffer != buffer, RefusalKind::BadStructure,
                 fmt::format("'{}' is a parameter of the program; {}", buffer->name, what), where);
  }
}

void require_only_writer(const Tree& tree, const Stmt& block, const Buffer& buffer) {
  for (const Stmt& other : leaf_blocks(tree.program().body)) {
    const std::vector<Buffer> written = buffers_written(*other.as<BlockNode>());
    const bool writes = std::find(written.begin(), written.end(), buffer) != written.end();
    tree.require(
        !writes || other.same_as(block), RefusalKind::Dependence,
        fmt::format("block '{}' also writes '{}', the buffer of block '{}'",
                    other.as<BlockNode>()->name, buffer->name, block.as<BlockNode>()->name),
        {block, other});
  }
}

Analyzer known_in(const Tree& tree, const BlockNode& block) {
  Analyzer known;
  for (const DimVar& dim : tree.program().dims) known.bind(dim.var, Interval{dim.min, dim.max});
  for (const IterVar& iter : block.iters) known.bind(iter.var, 0, iter.extent);
  return known;
}

Stmt simplify_body(const Tree& tree, const BlockNode& block) {
  class Simplifier : public Mutator {
   public:
    explicit Simplifier(Analyzer& known) : known_(known) {}

   protected:
    using Mutator::mutate;
    Expr mutate(const Expr& e) override { return e.defined() ? known_.simplify(e) : e; }

   private:
    Analyzer& known_;
  };
  Analyzer known = known_in(tree, block);
  Simplifier simplifier(known);
  return make_block(block.name, block.iters, simplifier(block.body),
                    block.init.defined() ? simplifier(block.init) : Stmt(), block.predicate,
                    block.allocs, block.annotations);
}

Program without_buffer(const Program& program, const Buffer& buffer) {
  Program result = program;
  for_each_stmt(program.body, [&](const Stmt& s) {
    auto* block = s.as<BlockNode>();
    if (!block) return;
    std::vector<Buffer> allocs = block->allocs;
    if (std::erase(allocs, buffer) == 0) return;
    result.body = replace_stmt(program.body, block, with_allocs(*block, std::move(allocs)));
  });
  return result;
}

}  // namespace tilewright
