#include "schedule/primitives/nest.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "ir/compare.h"
#include "schedule/primitives/region.h"

namespace tilewright {
namespace {

// A range that a loop can have. It is the whole domain when the range covers it or has unknown
// size; its extent never varies with the loops around.
Range settle(Range range, const Expr& extent, Analyzer& analyzer) {
  range = {analyzer.simplify(range.min), analyzer.simplify(range.extent)};
  if (covers_extent(analyzer, range, extent)) return {0, extent};
  if (as_int(range.extent)) return range;
  Interval bounds = analyzer.bounds(range.extent);
  if (bounds.max == Interval::kPosInf) return {0, extent};
  return {range.min, Expr(bounds.max)};
}

}  // namespace

Stmt make_nest(const BlockNode& block, std::vector<Range> ranges, Analyzer& analyzer, Names& names,
               const Expr& guard) {
  TW_ASSERT(ranges.size() == block.iters.size(), "a range for each iterator");
  analyzer.push();
  std::vector<Var> loops;
  std::vector<Expr> bindings;
  Expr predicate;
  for (size_t d = 0; d < ranges.size(); ++d) {
    const Expr& extent = block.iters[d].extent;
    ranges[d] = settle(ranges[d], extent, analyzer);
    loops.emplace_back(names.fresh(block.name + "_ax" + std::to_string(d)));
    analyzer.bind(loops[d], 0, ranges[d].extent);
    bindings.push_back(analyzer.simplify(ranges[d].min + loops[d]));
    Expr low = Expr(0) <= bindings[d], high = bindings[d] < extent;
    if (!analyzer.prove(low)) predicate = conjunction(predicate, low);
    if (!analyzer.prove(high)) predicate = conjunction(predicate, high);
  }
  for (const Expr& conjunct : conjuncts(predicate)) analyzer.assume(conjunct);
  for (const Expr& conjunct : conjuncts(guard)) {
    if (!analyzer.prove(conjunct)) predicate = conjunction(predicate, conjunct);
  }
  analyzer.pop();
  std::vector<IterVar> iters;
  for (size_t d = 0; d < bindings.size(); ++d) {
    const IterVar& iter = block.iters[d];
    iters.push_back({iter.var, iter.extent, iter.kind, bindings[d]});
  }
  Stmt nest = with_bindings(block, std::move(iters), predicate);
  for (size_t d = ranges.size(); d-- > 0;) {
    nest = make_for(loops[d], 0, ranges[d].extent, ForKind::Serial, nest);
  }
  return nest;
}

Stmt make_map_block(const std::string& name, const Buffer& from, const Buffer& to,
                    const std::function<Expr(const Expr&)>& fn) {
  std::vector<IterVar> iters;
  std::vector<Expr> indices;
  for (int d = 0; d < from->rank(); ++d) {
    Var v("v" + std::to_string(d));
    iters.push_back({v, from->shape[d], IterKind::Spatial, 0});
    indices.push_back(v);
  }
  return make_block(name, std::move(iters), make_store(to, indices, fn(load(from, indices))));
}

Stmt make_copy_block(const std::string& name, const Buffer& from, const Buffer& to) {
  return make_map_block(name, from, to, [](const Expr& element) { return element; });
}

std::vector<Stmt> require_lowered(const Tree& tree, const Path& path, const std::string& action) {
  const BlockNode& block = *path.back().as<BlockNode>();
  std::vector<Stmt> loops = loops_above(path);
  tree.require(
      !block.predicate.defined(), RefusalKind::BadStructure,
      fmt::format("block '{}' has a predicate; {} before it is scheduled", block.name, action),
      {path.back()});
  size_t depth = path.size() - loops.size() - 1;
  bool lone = !loops.empty() && loops.size() == block.iters.size();
  for (size_t i = 0; lone && i < loops.size(); ++i) {
    lone = path[depth + i].same_as(loops[i]);  // no other statement in between
  }
  // Simplification may have removed a loop of one iteration from the binding of its iterator.
  auto bound_to = [&](const IterVar& iter, const ForNode& loop) {
    return iter.binding.same_as(loop.var) && equal(iter.extent, loop.extent);
  };
  for (size_t i = 0; lone && i < loops.size(); ++i) {
    const ForNode& loop = *loops[i].as<ForNode>();
    lone = is_int(loop.min, 0) && loop.for_kind == ForKind::Serial &&
           (is_int(loop.extent, 1) ||
            std::any_of(block.iters.begin(), block.iters.end(),
                        [&](const IterVar& iter) { return bound_to(iter, loop); }));
  }
  for (size_t i = 0; lone && i < block.iters.size(); ++i) {
    const IterVar& iter = block.iters[i];
    lone = (is_int(iter.extent, 1) && is_int(iter.binding, 0)) ||
           std::any_of(loops.begin(), loops.end(),
                       [&](const Stmt& s) { return bound_to(iter, *s.as<ForNode>()); });
  }
  tree.require(lone, RefusalKind::BadStructure,
               fmt::format("the iterators of block '{}' are not each a serial loop of a lone nest; "
                           "{} before it is scheduled",
                           block.name, action),
               {path.back()});
  return loops;
}

std::vector<Range> full_ranges(const BlockNode& block) {
  std::vector<Range> ranges;
  for (const IterVar& iter : block.iters) ranges.push_back({0, iter.extent});
  return ranges;
}

}  // namespace tilewright
