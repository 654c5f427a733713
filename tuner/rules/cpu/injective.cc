// Inlining, and schedules of injective blocks.
#include <algorithm>
#include <numeric>

#include "base/ceil_div.h"
#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/rules.h"

namespace tilewright {

namespace {

bool feeds_contraction(RuleContext& c, const Block& block) {
  for (const Block& consumer : c.s.consumers(block)) {
    if (analyze(c.s, consumer).role == BlockRole::Contraction) return true;
  }
  return false;
}

}  // namespace

void inline_stages(RuleContext& c) {
  for (const Block& block : c.s.blocks()) {
    const BlockNode& n = c.s.node(block);
    if (analyze(c.s, block).role != BlockRole::Injective) continue;
    if (is_output(c.s, store_of(n).buffer->name) || feeds_contraction(c, block)) continue;
    size_t uses = c.s.consumers(block).size();
    bool free = uses == 1 || !is_expensive(n);
    // An expensive value with several readers may be worth keeping.
    if (free ||
        c.t.choose(block.name + ".inline", std::vector<std::string>{"no", "yes"}) == "yes") {
      c.s.compute_inline(block);
    }
  }
}

Loop parallel_over(RuleContext& c, const std::vector<Loop>& loops) {
  Loop outer = loops.size() > 1 ? c.s.fuse(loops) : loops[0];
  c.s.parallel(outer);
  return outer;
}

void vectorize_innermost(RuleContext& c, const Block& block, int64_t vectors) {
  std::vector<Loop> loops = c.s.loops(block);
  if (loops.empty()) return;
  const ForNode& inner = c.s.node(loops.back());
  const int64_t extent = largest_extent(c.s, inner.extent);
  if (extent < 2 || inner.for_kind != ForKind::Serial) return;
  int bits = bits_of(c.s.output(block)->elem);
  int64_t width = std::max(1, c.input.target.lanes(std::max(8, bits)));
  width *= std::max<int64_t>(1, vectors);
  if (as_int(inner.extent) && extent <= width) {
    c.s.vectorize(loops.back());
    return;
  }
  std::vector<Loop> parts = c.s.split(loops.back(), {-1, width});
  c.s.vectorize(parts[1]);
}

void schedule_injective(RuleContext& c, const Block& block) {
  std::vector<Loop> loops = c.s.loops(block);
  if (loops.empty()) return;
  int64_t vectors = c.t.choose(block.name + ".vectors", std::vector<int64_t>{1, 2, 4});
  if (loops.size() == 1) {
    auto constant = as_int(c.s.node(loops[0]).extent);
    const int64_t extent = largest_extent(c.s, c.s.node(loops[0]).extent);
    if (extent < 256) return vectorize_innermost(c, block, vectors);
    int64_t pieces = c.t.choose(block.name + ".pieces", std::vector<int64_t>{16, 4, 64});
    // With a dynamic axis, pieces are as long as those of the maximum; a shorter axis has fewer.
    std::vector<int64_t> factors = {pieces, -1};
    if (!constant) factors = {-1, ceil_div(extent, pieces)};
    std::vector<Loop> parts = c.s.split(loops[0], factors);
    c.s.parallel(parts[0]);
    return vectorize_innermost(c, block, vectors);
  }
  vectorize_innermost(c, block, vectors);
  parallel_over(c, {loops.begin(), loops.end() - 1});
}

void schedule_groups(RuleContext& c, const Block& block) {
  std::vector<Loop> loops = c.s.loops(block);
  const Loop along = loops.back();
  loops.pop_back();
  parallel_over(c, loops);
  const int bits = bits_of(c.s.output(block)->elem);
  const int64_t length = *as_int(c.s.node(along).extent);
  const int64_t lanes = std::gcd<int64_t>(length, c.input.target.lanes(bits));
  if (lanes > 1) c.s.vectorize(c.s.split(along, {-1, lanes})[1]);
}

}  // namespace tilewright
