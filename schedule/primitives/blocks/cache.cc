#include "schedule/primitives/blocks/cache.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "ir/compare.h"
#include "ir/text/printer.h"
#include "ir/visitor.h"
#include "schedule/affine.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/nest.h"
#include "schedule/primitives/region.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

// Finds the buffer among those that the block accesses; the refusal lists their names.
Buffer find_among(const Tree& tree, const std::vector<Buffer>& accessed, const std::string& buffer,
                  const std::string& verb, const Stmt& block) {
  std::vector<std::string> names;
  for (const Buffer& b : accessed) {
    if (b->name == buffer) return b;
    names.push_back(b->name);
  }
  tree.refuse(RefusalKind::NotFound,
              fmt::format("block '{}' does not {} '{}'; it {}s: {}", block.as<BlockNode>()->name,
                          verb, buffer, verb,
                          names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "))),
              {block});
}

// A new buffer like `buffer`, and the block that copies from or to it. Both have the same new name.
struct Cache {
  Names names;
  Buffer buffer;

  Cache(const Program& program, const Buffer& of, Scope scope) : names(program) {
    std::string name = names.fresh(fmt::format("{}_{}", of->name, name_of(scope)));
    buffer = make_buffer(name, of->elem, of->shape, scope);
  }
};

Path leaf_block(const Tree& tree, const std::string& name) {
  Path path = tree.block(name);
  tree.require(child_blocks(path.back()).empty(), RefusalKind::BadStructure,
               fmt::format("block '{}' holds other blocks; a leaf block is needed", name),
               {path.back()});
  return path;
}

// The outermost statement around the block (or the block itself), within its scope, that holds none
// of `others`. The result is a prefix of `path`.
Path outermost_without(const Path& path, const std::vector<Stmt>& others) {
  size_t size = scope_path(path).size() + 1;
  auto is_clear = [&](const Stmt& s) {
    if (s.as<SeqNode>()) return false;  // the copy goes between statements of a sequence
    return std::none_of(others.begin(), others.end(),
                        [&](const Stmt& other) { return !path_to(s, other.get()).empty(); });
  };
  while (size < path.size() && !is_clear(path[size - 1])) ++size;
  return Path(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(size));
}

// The nest of the copy block over `region`, at the end of `place`. It runs only where some
// iteration of `block` there may run: elsewhere nobody stored what it would copy.
Stmt copy_nest(const Tree& tree, Cache& cache, const Buffer& from, const Buffer& to,
               const Path& place, const Region& region, const Path& block) {
  Stmt copy = make_copy_block(cache.buffer->name, from, to);
  Analyzer known = tree.analyzer_at(place);
  return make_nest(*copy.as<BlockNode>(), region, known, cache.names,
                   necessary_at(tree, place, block));
}

// The program with `stmts` in place of the last statement of `place`, and `alloc` in the scope.
Program put(const Program& program, const Path& place, std::vector<Stmt> stmts,
            const Buffer& alloc) {
  Path scope = scope_path(place);
  Stmt body = replace_stmt(scope.back(), place.back().get(), make_seq(std::move(stmts)));
  std::vector<Buffer> allocs = body.as<BlockNode>()->allocs;
  allocs.push_back(alloc);
  return replace_stmt(program, scope.back().get(), with_allocs(*body.as<BlockNode>(), allocs));
}

// `block` with `from` replaced by `to` in all loads and stores.
Stmt redirected(const BlockNode& block, const Buffer& from, const Buffer& to) {
  BufferMap map{{from.get(), to}};
  Stmt init = block.init.defined() ? replace_buffers(block.init, map) : Stmt();
  return make_block(block.name, block.iters, replace_buffers(block.body, map), init,
                    block.predicate, block.allocs, block.annotations);
}

std::vector<Stmt> blocks_that_write(const Program& program, const Buffer& buffer) {
  std::vector<Stmt> found;
  for (const Stmt& s : leaf_blocks(program.body)) {
    if (contains(buffers_written(*s.as<BlockNode>()), buffer)) found.push_back(s);
  }
  return found;
}

std::vector<Stmt> blocks_that_read(const Program& program, const Buffer& buffer) {
  std::vector<Stmt> found;
  for (const Stmt& s : leaf_blocks(program.body)) {
    if (contains(buffers_read(*s.as<BlockNode>()), buffer)) found.push_back(s);
  }
  return found;
}

Region whole(const Buffer& buffer) {
  Region all;
  for (const Expr& extent : buffer->shape) all.push_back({0, extent});
  return all;
}

// The bounding box of all that a buffer's only writer stores. It may have holes, such as the
// padding of a layout that was rounded up. Nobody reads the copies of elements that were never
// written.
Region box_stored(const Buffer& buffer, const Stmt& writer) {
  const BlockNode& block = *writer.as<BlockNode>();
  auto* store = block.body.as<StoreNode>();
  if (!store) return whole(buffer);
  std::map<const ExprNode*, Range> domain;
  for (const IterVar& iter : block.iters) domain[iter.var.get()] = {0, iter.extent};
  return cover(store->indices, buffer->shape, domain);
}

size_t place_in_order(const Program& program, const Stmt& block) {
  std::vector<Stmt> order = leaf_blocks(program.body);
  auto found =
      std::find_if(order.begin(), order.end(), [&](const Stmt& s) { return s.same_as(block); });
  return static_cast<size_t>(found - order.begin());
}

Region region_of(const std::vector<BufferRegion>& accessed, const Buffer& buffer) {
  for (const BufferRegion& access : accessed) {
    if (access.buffer == buffer) return access.region;
  }
  TW_ASSERT(false, "the block accesses the buffer");
  return {};
}

// The region that cache_read copies: all that is stored, or, under loops, what one iteration reads.
Region region_to_read(const Tree& tree, const Path& place, const Buffer& buffer,
                      const std::vector<Stmt>& writers, const Path& reader) {
  Region all = writers.size() == 1 ? box_stored(buffer, writers[0]) : whole(buffer);
  if (loops_above(place).empty()) return all;
  tree.require(is_domain_predicate_at(tree, place, reader), RefusalKind::Unsupported,
               fmt::format("the predicate of block '{}' cuts what it reads of '{}' to less than a "
                           "box",
                           reader.back().as<BlockNode>()->name, buffer->name),
               {reader.back()});
  return region_of(accesses(place.back()).reads, buffer);
}

// The region that cache_write copies: what the block stores before its readers run.
Region region_to_write(const Tree& tree, const Path& place, const Stmt& block,
                       const Buffer& buffer) {
  Region all = box_stored(buffer, block);
  if (loops_above(place).empty()) return all;
  Analyzer known = tree.analyzer_at(place);
  auto region = region_stored(place.back(), *block.as<BlockNode>(), buffer, known);
  tree.require(
      region.has_value(), RefusalKind::Unsupported,
      fmt::format(
          "block '{}' stores a region of '{}' before its readers that is no box without holes",
          block.as<BlockNode>()->name, buffer->name),
      {block});
  return *region;
}

// The indices at which a block reads a buffer, and the iterator that looks up each dimension's
// index.
class Lookups {
 public:
  Lookups(const Tree& tree, const Path& path, const Buffer& buffer)
      : tree_(tree), path_(path), node_(*path.back().as<BlockNode>()), buffer_(buffer),
        iters_(buffer->shape.size(), nullptr), indices_(buffer->shape.size()) {
    for_each_expr(path.back(), [&](const Expr& e) {
      auto* read = e.as<LoadNode>();
      if (read && read->buffer == buffer_) see(*read);
    });
    tree_.require(
        std::any_of(iters_.begin(), iters_.end(), [](const IterVar* i) { return i; }),
        RefusalKind::Unsupported,
        fmt::format("block '{}' looks no index of '{}' up in memory", node_.name, buffer_->name),
        {path_.back()});
  }

  std::vector<Expr> shape() const {
    std::vector<Expr> extents = buffer_->shape;
    for (size_t d = 0; d < extents.size(); ++d) {
      if (iters_[d]) extents[d] = iters_[d]->extent;
    }
    return extents;
  }

  // The block that fills `to` with the elements found.
  Stmt copy_block(const Buffer& to) const {
    std::vector<IterVar> iters;
    std::vector<Expr> at, from;
    for (size_t d = 0; d < indices_.size(); ++d) {
      Var v(fmt::format("v{}", d));
      iters.push_back({v, to->shape[d], IterKind::Spatial, Expr(0)});
      at.push_back(v);
      from.push_back(iters_[d] ? substitute(indices_[d], VarMap{{iters_[d]->var.get(), v}})
                               : Expr(v));
    }
    return make_block(to->name, std::move(iters), make_store(to, at, load(buffer_, from)));
  }

  // The block, reading `to` instead.
  Stmt redirected(const Buffer& to) const {
    ToCopy to_copy(*this, to);
    Stmt init = node_.init.defined() ? to_copy(node_.init) : Stmt();
    return make_block(node_.name, node_.iters, to_copy(node_.body), init, node_.predicate,
                      node_.allocs, node_.annotations);
  }

 private:
  class ToCopy : public Mutator {
   public:
    ToCopy(const Lookups& lookups, const Buffer& to) : lookups_(lookups), to_(to) {}

   protected:
    Expr mutate_load(const LoadNode& n, const Expr& e) override {
      if (n.buffer != lookups_.buffer_) return Mutator::mutate_load(n, e);
      std::vector<Expr> at;
      for (size_t d = 0; d < n.indices.size(); ++d) {
        const IterVar* iter = lookups_.iters_[d];
        at.push_back(iter ? Expr(iter->var) : mutate(n.indices[d]));
      }
      return load(to_, at, mutate(n.predicate));
    }

   private:
    const Lookups& lookups_;
    const Buffer& to_;
  };

  void see(const LoadNode& read) {
    for (size_t d = 0; d < read.indices.size(); ++d) {
      const Expr& index = read.indices[d];
      bool looks_up = false;
      for_each_expr(index, [&](const Expr& e) {
        auto* key = e.as<LoadNode>();
        if (!key) return;
        looks_up = true;
        require_unwritten(key->buffer);
      });
      const IterVar* iter = looks_up ? iterator_of(index) : nullptr;
      const bool is_first = !indices_[d].defined();
      tree_.require(is_first || (iters_[d] == iter && (!iter || equal(indices_[d], index))),
                    RefusalKind::Unsupported,
                    fmt::format("block '{}' looks dimension {} of '{}' up at several places",
                                node_.name, d, buffer_->name),
                    {path_.back()});
      iters_[d] = iter;
      indices_[d] = index;
    }
    require_unwritten(buffer_);
  }

  const IterVar* iterator_of(const Expr& index) const {
    const std::vector<int> found = iterators_in(node_, index);
    tree_.require(found.size() == 1, RefusalKind::Unsupported,
                  fmt::format("an index of '{}' is looked up by {} iterators of block '{}'; there "
                              "may be one",
                              buffer_->name, found.size(), node_.name),
                  {path_.back()});
    const IterVar& iter = node_.iters[static_cast<size_t>(found[0])];
    require_inside(iter, index);
    return &iter;
  }

  // The copy looks up all values of the iterator, even those for which a condition keeps the block
  // from the lookup.
  void require_inside(const IterVar& iter, const Expr& index) const {
    Analyzer known;
    known.bind(iter.var, 0, iter.extent);
    for_each_expr(index, [&](const Expr& e) {
      auto* key = e.as<LoadNode>();
      for (size_t d = 0; key && d < key->indices.size(); ++d) {
        const Expr &at = key->indices[d], &extent = key->buffer->shape[d];
        tree_.require(
            known.prove(at >= Expr(0)) && known.prove(at < extent), RefusalKind::Unsupported,
            fmt::format("for some of the {} values of '{}' '{}' has no element {}",
                        to_string(iter.extent), iter.var.name(), key->buffer->name, to_string(at)),
            {path_.back()});
      }
    });
  }

  void require_unwritten(const Buffer& buffer) const {
    const std::vector<Stmt> writers = blocks_that_write(tree_.program(), buffer);
    tree_.require(writers.empty(), RefusalKind::Dependence,
                  fmt::format("'{}' is written; what is looked up must be there from the start",
                              buffer->name),
                  writers);
  }

  const Tree& tree_;
  const Path& path_;
  const BlockNode& node_;
  const Buffer& buffer_;
  std::vector<const IterVar*> iters_;  // one per dimension; null where nothing is looked up
  std::vector<Expr> indices_;
};

}  // namespace

Applied CacheLookup::apply(const Module& module) const {
  Tree tree(kName, module.main);
  const Path path = leaf_block(tree, block);
  const BlockNode& node = *path.back().as<BlockNode>();
  const Buffer original = find_among(tree, buffers_read(node), buffer, "read", path.back());
  const Lookups lookups(tree, path, original);
  Cache cache(module.main, original, scope);
  cache.buffer = make_buffer(cache.buffer->name, original->elem, lookups.shape(), scope);
  const Path place = outermost_without(path, {});
  const Stmt block_of_copy = lookups.copy_block(cache.buffer);
  Analyzer known = tree.analyzer_at(place);
  const BlockNode& copy = *block_of_copy.as<BlockNode>();
  const Stmt nest = make_nest(copy, full_ranges(copy), known, cache.names);
  const Stmt reader = replace_stmt(place.back(), &node, lookups.redirected(cache.buffer));
  Module result = module;
  result.main = put(module.main, place, {nest, reader}, cache.buffer);
  return {std::move(result), {cache.buffer->name}};
}

Applied CacheRead::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Path path = leaf_block(tree, block);
  const BlockNode& node = *path.back().as<BlockNode>();
  Buffer original = find_among(tree, buffers_read(node), buffer, "read", path.back());
  std::vector<Stmt> writers = blocks_that_write(module.main, original);
  for (const Stmt& writer : writers) {
    const std::string& name = writer.as<BlockNode>()->name;
    tree.require(
        !writer.same_as(path.back()), RefusalKind::Dependence,
        fmt::format("block '{}' also writes '{}'; a copy would not see that", name, buffer),
        {writer});
    tree.require(place_in_order(module.main, writer) < place_in_order(module.main, path.back()),
                 RefusalKind::Dependence,
                 fmt::format("block '{}' writes '{}' behind block '{}'", name, buffer, block),
                 {writer, path.back()});
  }
  Cache cache(module.main, original, scope);
  Path place = outermost_without(path, writers);
  Stmt copy = copy_nest(tree, cache, original, cache.buffer, place,
                        region_to_read(tree, place, original, writers, path), path);
  Stmt reader = replace_stmt(place.back(), &node, redirected(node, original, cache.buffer));
  Module result = module;
  result.main = put(module.main, place, {copy, reader}, cache.buffer);
  return {std::move(result), {cache.buffer->name}};
}

Applied CacheWrite::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Path path = leaf_block(tree, block);
  const BlockNode& node = *path.back().as<BlockNode>();
  Buffer original = find_among(tree, buffers_written(node), buffer, "write", path.back());
  for (const Stmt& writer : blocks_that_write(module.main, original)) {
    tree.require(writer.same_as(path.back()), RefusalKind::Dependence,
                 fmt::format("block '{}' also writes '{}'; the copy must have one writer",
                             writer.as<BlockNode>()->name, buffer),
                 {writer, path.back()});
  }
  std::vector<Stmt> readers;
  for (const Stmt& reader : blocks_that_read(module.main, original)) {
    if (!reader.same_as(path.back())) readers.push_back(reader);
  }
  Cache cache(module.main, original, scope);
  Path place = outermost_without(path, readers);
  Stmt copy = copy_nest(tree, cache, cache.buffer, original, place,
                        region_to_write(tree, place, path.back(), original), path);
  Stmt writer = replace_stmt(place.back(), &node, redirected(node, original, cache.buffer));
  Module result = module;
  result.main = put(module.main, place, {writer, copy}, cache.buffer);
  return {std::move(result), {cache.buffer->name}};
}

std::vector<PrimitiveEntry> cache_primitives() {
  return {primitive_entry<CacheRead>(), primitive_entry<CacheWrite>(),
          primitive_entry<CacheLookup>()};
}

}  // namespace tilewright
