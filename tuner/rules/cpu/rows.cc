// Row reductions, alone and in chains over common rows.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "base/error.h"
#include "ir/compare.h"
#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/rules.h"

namespace tilewright {
namespace {

constexpr int64_t kEnoughRows = 8;  // rows that keep a few threads busy
constexpr int64_t kShortRow = 64;   // elements; shorter rows may be reduced as they are
constexpr int64_t kLeastLanes = 4;  // of partial results
constexpr int64_t kLongRow = 4096;  // elements; long enough to divide among threads

// Asks for the number of partial results of a row, in vector lanes: several vectors hide the latency of
// additions. Widths that divide the row come first, since others mask the last lanes of each row; parts of
// a vector do so in short rows alone. 0: the row is reduced as it is.
int64_t partial_width(RuleContext& c, const Block& block, int64_t extent) {
  const int64_t lanes = lanes_of_results(c.s, block, c.input.target);
  std::vector<int64_t> widths;
  for (int64_t vectors : {8, 4, 1, 2}) widths.push_back(lanes * vectors);
  for (int64_t narrow = lanes / 2; narrow >= kLeastLanes; narrow /= 2) widths.push_back(narrow);
  std::erase_if(widths, [&](int64_t w) { return w > std::max(extent, kLeastLanes); });
  std::stable_partition(widths.begin(), widths.end(), [&](int64_t w) {
    return extent % w == 0 && (w >= lanes || extent < kShortRow);
  });
  if (extent < kShortRow) widths.push_back(0);
  return c.t.choose(block.name + ".partials", widths);
}

// Fuses all reduction loops of a block whose loops are still as lowered.
Loop fuse_reduction(RuleContext& c, const Block& block) {
  BlockFacts facts = analyze(c.s, block);
  std::vector<Loop> loops = c.s.loops(block);
  std::vector<Loop> reduce(loops.end() - static_cast<long>(facts.reduce.size()), loops.end());
  return reduce.size() > 1 ? c.s.fuse(reduce) : reduce[0];
}

// Splits the reduction into `width` parallel partial results. Returns their block.
Block split_lanes(RuleContext& c, const Block& block, int64_t width) {
  std::vector<Loop> parts = c.s.split(fuse_reduction(c, block), {-1, width});
  return c.s.rfactor(block, parts[1], 0);
}

struct LanePartials {
  Block block;
  int64_t width;
};

// Splits the reduction into partial results in vector lanes, and those into fewer, down to a few, so that
// no long chain of scalar operations ends the row. First made, first in the list.
std::vector<LanePartials> split_into_lanes(RuleContext& c, const Block& block, int64_t width) {
  std::vector<LanePartials> made;
  const int64_t lanes = lanes_of_results(c.s, block, c.input.target);
  for (;; width = width > lanes ? lanes : kLeastLanes) {
    made.push_back({split_lanes(c, block, width), width});
    if (width <= kLeastLanes) return made;
  }
}

// Orders the loops of partial results: the reduction outside, their vector inside.
void finish_lanes(RuleContext& c, const LanePartials& partials) {
  const BlockNode& n = c.s.node(partials.block);
  int axis = plain_iterator(n, store_of(n).indices[0]);
  if (axis < 0) return;
  auto lanes = loop_of(n.iters[static_cast<size_t>(axis)]);
  std::optional<Loop> reduce;
  for (const IterVar& iter : n.iters) {
    if (iter.kind == IterKind::Reduce) reduce = loop_of(iter);
  }
  if (!lanes) return;
  if (reduce) {
    std::vector<Loop> loops = c.s.loops(partials.block);
    auto at = [&](const Loop& l) { return std::find(loops.begin(), loops.end(), l); };
    if (at(*lanes) < at(*reduce)) c.s.reorder({*reduce, *lanes});
    Block init = c.s.decompose_reduction(partials.block, *reduce);
    vectorize_innermost(c, init, partials.width);
  }
  c.s.vectorize(*lanes);
}

// Fuses the outermost loops of a block.
Loop fuse_outer(RuleContext& c, const Block& block, size_t count) {
  std::vector<Loop> loops = c.s.loops(block);
  loops.resize(count);
  return count > 1 ? c.s.fuse(loops) : loops[0];
}

// Few long rows: threads take pieces of each row, in vector lanes.
void split_among_threads(RuleContext& c, const Block& block, int64_t extent) {
  int64_t pieces = c.t.choose(block.name + ".pieces", std::vector<int64_t>{16, 2, 4, 8, 32});
  std::vector<Loop> parts = c.s.split(fuse_reduction(c, block), {pieces, -1});
  Block partial = c.s.rfactor(block, parts[0], 0);
  const int64_t width = partial_width(c, block, extent / pieces);
  const Block lanes = split_lanes(c, partial, width);
  const BlockNode& n = c.s.node(partial);
  int axis = plain_iterator(n, store_of(n).indices[0]);
  auto piece = axis < 0 ? std::nullopt : loop_of(n.iters[static_cast<size_t>(axis)]);
  if (!piece) return;
  std::vector<Loop> loops = c.s.loops(partial);
  std::erase(loops, *piece);
  // The loop over pieces goes outermost; the rows inside are few.
  std::vector<Loop> order = {*piece};
  for (const Loop& l : loops) order.push_back(l);
  c.s.reorder(order);
  c.s.compute_at(lanes, *piece);
  finish_lanes(c, {lanes, width});
  c.s.parallel(*piece);
}

}  // namespace

void split_row_reduction(RuleContext& c, const Block& block) {
  BlockFacts facts = analyze(c.s, block);
  int64_t extent = product(facts, facts.reduce);
  int64_t rows = product(facts, facts.spatial);
  if (rows < kEnoughRows && extent >= kLongRow) return split_among_threads(c, block, extent);
  const bool dynamic = std::ranges::any_of(facts.dynamic, std::identity());
  const size_t outer = dynamic ? std::min<size_t>(1, facts.spatial.size()) : facts.spatial.size();
  const int64_t width = extent < kLeastLanes ? 0 : partial_width(c, block, extent);
  std::vector<LanePartials> partials;
  if (width > 0) partials = split_into_lanes(c, block, width);
  if (outer > 0) {
    const Loop row = fuse_outer(c, block, outer);
    for (size_t i = partials.size(); i-- > 0;) c.s.compute_at(partials[i].block, row);
    c.s.parallel(row);
  }
  for (const LanePartials& p : partials) finish_lanes(c, p);
}

namespace {

// The number of outermost iterators over rows that all blocks share: each writes its elements there.
size_t common_rows(RuleContext& c, const std::vector<Block>& blocks) {
  const BlockNode& last = c.s.node(blocks.back());
  auto is_fixed = [](const IterVar& iter) { return as_int(iter.extent).has_value(); };
  auto reduces = [&](const Block& b) { return analyze(c.s, b).role != BlockRole::Injective; };
  const bool many =
      std::ranges::all_of(last.iters, is_fixed) && std::ranges::any_of(blocks, reduces);
  size_t count = many ? last.iters.size() : std::min<size_t>(1, last.iters.size());
  for (const Block& b : blocks) {
    const BlockNode& n = c.s.node(b);
    const std::vector<Expr>& at = store_of(n).indices;
    size_t same = 0;
    while (same < count && same < n.iters.size() && same < at.size() &&
           n.iters[same].kind == IterKind::Spatial &&
           equal(n.iters[same].extent, last.iters[same].extent) &&
           plain_iterator(n, at[same]) == static_cast<int>(same)) {
      ++same;
    }
    count = same;
  }
  return count;
}

}  // namespace

bool fuse_rows(RuleContext& c) {
  std::vector<Block> blocks = c.s.blocks();
  const Block last = blocks.back();
  if (analyze(c.s, last).role != BlockRole::Injective) return false;
  const size_t outer = common_rows(c, blocks);
  int64_t rows = 1;
  for (size_t i = 0; i < outer; ++i) {
    rows *= largest_extent(c.s, c.s.node(last).iters[i].extent);
  }
  if (rows < kEnoughRows) return false;
  std::map<std::string, int64_t> widths;  // of partial results, by block
  for (const Block& b : blocks) {
    BlockFacts facts = analyze(c.s, b);
    int64_t extent = product(facts, facts.reduce);
    if (facts.role == BlockRole::Injective || extent < kLeastLanes) continue;
    const int64_t width = partial_width(c, b, extent);
    if (width == 0) continue;
    for (const LanePartials& p : split_into_lanes(c, b, width)) widths[p.block.name] = p.width;
  }
  const Loop row = fuse_outer(c, last, outer);
  std::vector<Block> all = c.s.blocks();
  for (size_t i = all.size(); i-- > 0;) {
    if (!(all[i] == last)) c.s.compute_at(all[i], row);
  }
  // Parallelized while each stage still runs over the whole row: the analyzer cannot show that the
  // pieces of a dynamic row cover it.
  c.s.parallel(row);
  for (const Block& b : all) {
    auto width = widths.find(b.name);
    if (width != widths.end()) {
      finish_lanes(c, {b, width->second});
    } else if (analyze(c.s, b).role == BlockRole::Injective && c.s.loops(b).size() > 1) {
      int64_t vectors = c.t.choose(b.name + ".vectors", std::vector<int64_t>{2, 1, 4});
      vectorize_innermost(c, b, vectors);
    }
  }
  return true;
}

}  // namespace tilewright
