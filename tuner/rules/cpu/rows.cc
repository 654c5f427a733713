// Row reductions, alone and in chains over common rows.
#include <algorithm>
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
constexpr int64_t kShortRow = 64;   // elements; shorter rows are reduced as they are
constexpr int64_t kLongRow = 4096;  // elements; long enough to divide among threads

// The loop to which an iterator is bound, or nothing.

// Lanes times a number of vectors: independent partial results hide the latency of additions.
int64_t partial_width(RuleContext& c, const Block& block, int64_t extent) {
  int bits = bits_of(c.s.output(block)->elem);
  int64_t lanes = std::max(1, c.input.target.lanes(std::max(bits, 8)));
  int64_t most = std::max<int64_t>(1, extent / lanes);
  std::vector<int64_t> options = {4, 1, 2, 8};
  std::erase_if(options, [&](int64_t v) { return v > most; });
  if (options.empty()) options = {1};
  return lanes * c.t.choose(block.name + ".partials", options);
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

// Orders the loops of partial results: the reduction outside, their vector inside.
void finish_lanes(RuleContext& c, const Block& partial, int64_t width) {
  const BlockNode& n = c.s.node(partial);
  int axis = plain_iterator(n, store_of(n).indices[0]);
  if (axis < 0) return;
  auto lanes = loop_of(n.iters[static_cast<size_t>(axis)]);
  std::optional<Loop> reduce;
  for (const IterVar& iter : n.iters) {
    if (iter.kind == IterKind::Reduce) reduce = loop_of(iter);
  }
  if (!lanes) return;
  if (reduce) {
    std::vector<Loop> loops = c.s.loops(partial);
    auto at = [&](const Loop& l) { return std::find(loops.begin(), loops.end(), l); };
    if (at(*lanes) < at(*reduce)) c.s.reorder({*reduce, *lanes});
    Block init = c.s.decompose_reduction(partial, *reduce);
    vectorize_innermost(c, init, width);
  }
  c.s.vectorize(*lanes);
}

// Few long rows: threads take pieces of each row, in vector lanes.
void split_among_threads(RuleContext& c, const Block& block, int64_t extent) {
  int64_t pieces = c.t.choose(block.name + ".pieces", std::vector<int64_t>{16, 2, 4, 8, 32});
  std::vector<Loop> parts = c.s.split(fuse_reduction(c, block), {pieces, -1});
  Block partial = c.s.rfactor(block, parts[0], 0);
  int64_t width = partial_width(c, block, extent / pieces);
  Block lanes = split_lanes(c, partial, width);
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
  finish_lanes(c, lanes, width);
  c.s.parallel(*piece);
}

}  // namespace

void split_row_reduction(RuleContext& c, const Block& block) {
  BlockFacts facts = analyze(c.s, block);
  int64_t extent = product(facts, facts.reduce);
  int64_t rows = product(facts, facts.spatial);
  if (rows < kEnoughRows && extent >= kLongRow) return split_among_threads(c, block, extent);
  std::vector<Loop> loops = c.s.loops(block);
  if (facts.spatial.empty()) return;
  Loop row = loops[0];
  if (extent < kShortRow) return c.s.parallel(row);
  int64_t width = partial_width(c, block, extent);
  Block lanes = split_lanes(c, block, width);
  row = c.s.loops(block)[0];  // the result has its own loops now
  c.s.compute_at(lanes, row);
  finish_lanes(c, lanes, width);
  c.s.parallel(row);
}

bool fuse_rows(RuleContext& c) {
  std::vector<Block> blocks = c.s.blocks();
  const Block last = blocks.back();
  const BlockNode& n = c.s.node(last);
  if (n.iters.empty() || analyze(c.s, last).role != BlockRole::Injective) return false;
  const Expr rows = n.iters[0].extent;
  if (largest_extent(c.s, rows) < kEnoughRows) return false;
  for (const Block& b : blocks) {
    const BlockNode& other = c.s.node(b);
    bool leads = !other.iters.empty() && equal(other.iters[0].extent, rows) &&
                 other.iters[0].kind == IterKind::Spatial && !store_of(other).indices.empty() &&
                 plain_iterator(other, store_of(other).indices[0]) == 0;
    if (!leads) return false;
  }
  std::map<std::string, int64_t> widths;  // of partial results, by block
  for (const Block& b : blocks) {
    BlockFacts facts = analyze(c.s, b);
    int64_t extent = product(facts, facts.reduce);
    if (facts.role == BlockRole::Injective || extent < kShortRow) continue;
    int64_t width = partial_width(c, b, extent);
    widths[split_lanes(c, b, width).name] = width;
  }
  Loop row = c.s.loops(last)[0];
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
      finish_lanes(c, b, width->second);
    } else if (analyze(c.s, b).role == BlockRole::Injective && c.s.loops(b).size() > 1) {
      int64_t vectors = c.t.choose(b.name + ".vectors", std::vector<int64_t>{2, 1, 4});
      vectorize_innermost(c, b, vectors);
    }
  }
  return true;
}

}  // namespace tilewright
