// Row reductions, alone and in chains over common rows.
#include <algorithm>

#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/rules.h"

namespace tilewright {
namespace {

constexpr int64_t kEnoughRows = 8;  // rows that keep a few threads busy

// The rows of a block: the product of its spatial extents.
int64_t rows_of(const BlockFacts& f) {
  int64_t rows = 1;
  for (int i : f.spatial) rows *= f.extents[i];
  return rows;
}

// Lanes times a number of vectors: independent partial results hide the latency of the addition.
int64_t partial_width(RuleContext& c, const Block& block, int64_t extent) {
  int bits = bits_of(store_of(c.s.node(block)).buffer->elem);
  int64_t lanes = std::max(1, c.input.target.lanes(std::max(bits, 8)));
  int64_t most = std::max<int64_t>(1, extent / lanes);
  std::vector<int64_t> options = {4, 1, 2, 8};
  std::erase_if(options, [&](int64_t v) { return v > most; });
  if (options.empty()) options = {1};
  return lanes * c.t.choose(block.name + ".partials", options);
}

// Splits the innermost reduce loop so that `width` partial results stand side by side. Returns the
// block of the partial results.
Block partial_results(RuleContext& c, const Block& block, int64_t width) {
  Loop inner = c.s.loops(block).back();
  std::vector<Loop> parts = c.s.split(inner, {-1, width});
  return c.s.rfactor(block, parts[1], 0);
}

}  // namespace

Block split_row_reduction(RuleContext& c, const Block& block) {
  BlockFacts facts = analyze(c.s, block);
  int64_t extent = facts.extents[facts.reduce.back()];
  std::vector<Loop> loops = c.s.loops(block);
  size_t spatial = facts.spatial.size();
  if (facts.reduce.size() > 1) {
    std::vector<Loop> reduce(loops.begin() + static_cast<long>(spatial), loops.end());
    c.s.fuse(reduce);
    extent = 1;
    for (int i : facts.reduce) extent *= facts.extents[i];
  }
  bool few_rows = rows_of(facts) < kEnoughRows;
  if (few_rows && extent >= 4096) {
    int64_t pieces = c.t.choose(block.name + ".pieces", std::vector<int64_t>{16, 2, 4, 8, 32});
    std::vector<Loop> parts = c.s.split(c.s.loops(block).back(), {pieces, -1});
    Block partial = c.s.rfactor(block, parts[0], 0);
    int64_t width = partial_width(c, block, extent / pieces);
    Block lanes = partial_results(c, partial, width);
    std::vector<Loop> outer = c.s.loops(partial);
    // The partial block's loops: the pieces and rows, then what is left of its reduction.
    Loop last_spatial = outer[c.s.node(partial).iters.size() - 2];
    c.s.compute_at(lanes, last_spatial);
    std::vector<Loop> inner = c.s.loops(lanes);
    Loop init_at = inner[inner.size() - 2];
    c.s.reorder({inner[inner.size() - 1], inner[inner.size() - 2]});
    (void)init_at;
    c.s.parallel(outer[0]);
    return block;
  }
  if (extent >= 64) partial_results(c, block, partial_width(c, block, extent));
  return block;
}

bool fuse_rows(RuleContext& c) {
  std::vector<Block> blocks = c.s.blocks();
  const Block last = blocks.back();
  BlockFacts out = analyze(c.s, last);
  if (out.spatial.empty() || !out.constant) return false;
  // Every other block must have the rows as its leading iterators.
  const BlockNode& n = c.s.node(last);
  auto rows = as_int(n.iters[0].extent);
  if (!rows || *rows < 2) return false;
  for (const Block& b : blocks) {
    const BlockNode& other = c.s.node(b);
    if (other.iters.empty() || !is_int(other.iters[0].extent, *rows)) return false;
    if (other.iters[0].kind != IterKind::Spatial) return false;
  }
  return true;
}

}  // namespace tilewright
