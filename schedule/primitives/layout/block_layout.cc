// transform_block_layout: replaces the iterators of a block.
#include <fmt/core.h>

#include "ir/visitor.h"
#include "schedule/primitives/layout/layout.h"
#include "schedule/primitives/layout/relayout.h"
#include "schedule/primitives/nest.h"
#include "schedule/primitives/pointwise.h"
#include "schedule/primitives/region.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

class BlockTransformer {
 public:
  BlockTransformer(const Tree& tree, const std::string& name, const IndexMap& map)
      : tree_(tree), map_(map), path_(tree.block(name)), block_(*path_.back().as<BlockNode>()) {
    check_structure();
    bijection_ = require_bijection(
        tree_, map_, extents(), fmt::format("the iterators of block '{}'", name), {path_.back()});
    make_iterators();
  }

  Program transformed() const {
    VarMap old = old_iterators();
    std::vector<IterVar> iters;
    std::vector<Range> ranges;
    for (size_t d = 0; d < iters_.size(); ++d) {
      iters.push_back(iters_[d]);
      ranges.push_back({0, iters_[d].extent});
    }
    Stmt init = block_.init.defined() ? substitute(block_.init, old) : Stmt();
    Stmt block = make_block(block_.name, std::move(iters), substitute(block_.body, old), init, {},
                            block_.allocs, block_.annotations);
    block = simplify_body(tree_, *block.as<BlockNode>());

    std::vector<Stmt> loops = loops_above(path_);
    const Stmt& place = loops.empty() ? path_.back() : loops.front();
    Program taken = replace_stmt(tree_.program(), place.get(), placeholder());
    Names names(taken);
    Analyzer known = tree_.analyzer_at(path_to(tree_.program().body, place.get()));
    Stmt nest = make_nest(*block.as<BlockNode>(), ranges, known, names);
    return replace_stmt(tree_.program(), place.get(), with_padding_left_out(nest));
  }

 private:
  std::vector<Expr> extents() const {
    std::vector<Expr> list;
    for (const IterVar& iter : block_.iters) list.push_back(iter.extent);
    return list;
  }

  void check_structure() const {
    const Stmt& s = path_.back();
    tree_.require(child_blocks(s).empty(), RefusalKind::BadStructure,
                  fmt::format("block '{}' holds other blocks; a leaf block is needed", block_.name),
                  {s});
    for (const Stmt& loop : loops_above(path_)) {
      tree_.require(child_blocks(loop).size() == 1, RefusalKind::BadStructure,
                    fmt::format("loop '{}' holds other blocks beside '{}'",
                                loop.as<ForNode>()->var.name(), block_.name),
                    {loop});
    }
    Analyzer known = tree_.analyzer_at(path_);
    tree_.require(is_domain_predicate(known, block_), RefusalKind::Unsupported,
                  fmt::format("the predicate of block '{}' does not follow from the extents of its "
                              "iterators",
                              block_.name),
                  {s});
  }

  // Makes one iterator per output, of the kind of the iterators that the output is made of. Maps
  // that can be inverted take 0 to 0, so a reduction's init still runs at its first step.
  void make_iterators() {
    for (size_t d = 0; d < map_.outputs.size(); ++d) {
      bool spatial = false, reduce = false;
      for (size_t i = 0; i < map_.inputs.size(); ++i) {
        if (!uses_var(map_.outputs[d], map_.inputs[i])) continue;
        (block_.iters[i].kind == IterKind::Spatial ? spatial : reduce) = true;
      }
      tree_.require(!spatial || !reduce, RefusalKind::BadArgument,
                    fmt::format("output {} of the map {} mixes spatial and reduce iterators of "
                                "block '{}'",
                                d, map_.str(), block_.name),
                    {path_.back()});
      iters_.push_back({Var(fmt::format("v{}", d)), bijection_.image[d],
                        reduce ? IterKind::Reduce : IterKind::Spatial, 0});
    }
  }

  // The old iterators as expressions of the new ones.
  VarMap old_iterators() const {
    std::vector<Expr> now;
    for (const IterVar& iter : iters_) now.push_back(iter.var);
    std::vector<Expr> values = bijection_.inverse.apply(now);
    VarMap old;
    for (size_t i = 0; i < values.size(); ++i) old[block_.iters[i].var.get()] = values[i];
    return old;
  }

  // A statement that uses no names, so that Names sees only those of the rest of the program.
  static Stmt placeholder() {
    Buffer none = make_buffer("none", ElemType::f32, {});
    return make_store(none, {}, make_float(ElemType::f32, 0));
  }

  // The nest, with a predicate on its block where the image is larger than the domain.
  Stmt with_padding_left_out(const Stmt& nest) const {
    Path path = path_to_block(nest, block_.name);
    const BlockNode& block = *path.back().as<BlockNode>();
    Analyzer known;
    for (const DimVar& dim : tree_.program().dims) {
      known.bind(dim.var, Interval{dim.min, dim.max});
    }
    VarMap loops;
    for (const IterVar& iter : block.iters) loops[iter.var.get()] = iter.binding;
    for (const Stmt& s : loops_above(path)) {
      auto* loop = s.as<ForNode>();
      known.bind(loop->var, loop->min, loop->extent);
    }
    std::vector<Expr> logical;
    for (const auto& iter : block_.iters) {
      logical.push_back(known.simplify(substitute(old_iterators().at(iter.var.get()), loops)));
    }
    Expr padding = inside_condition(logical, extents(), known);
    if (!padding.defined()) return nest;
    return replace_stmt(nest, &block,
                        with_bindings(block, block.iters, conjunction(block.predicate, padding)));
  }

  const Tree& tree_;
  const IndexMap& map_;
  Path path_;
  const BlockNode& block_;
  Bijection bijection_;
  std::vector<IterVar> iters_;
};

}  // namespace

Applied TransformBlockLayout::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Module result = module;
  result.main = BlockTransformer(tree, block, map).transformed();
  return {std::move(result), {}};
}

}  // namespace tilewright
