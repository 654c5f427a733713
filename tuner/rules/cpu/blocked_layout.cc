#include "tuner/rules/cpu/blocked_layout.h"

#include <algorithm>

#include "ir/visitor.h"
#include "tuner/rules/analysis.h"

namespace tilewright {

bool stands_in_parallel(const Schedule& s, const Block& block) {
  std::vector<Loop> loops = s.loops(block);
  return std::any_of(loops.begin(), loops.end(),
                     [&](const Loop& l) { return s.node(l).for_kind == ForKind::Parallel; });
}

std::vector<Block> padded_by(const Schedule& s, const Block& padding) {
  if (!store_of(s.node(padding)).value.as<SelectNode>()) return {};
  std::vector<Block> result;
  for (const Block& p : s.producers(padding)) {
    const bool sums = analyze(s, p).role == BlockRole::Contraction;
    if (sums || stands_in_parallel(s, p)) result.push_back(p);
  }
  return result;
}

void put_dimension_last(RuleContext& c, const Block& producer, size_t dimension) {
  const Buffer buffer = c.s.output(producer);
  const size_t rank = static_cast<size_t>(buffer->rank());
  if (c.s.node(producer).iters.size() != rank) return;
  const IndexMap map = moved_index(rank, dimension, rank - 1);
  c.s.transform_layout(buffer->name, map);
  c.s.transform_block_layout(producer, map);
}

void choose_blocked_layout(RuleContext& c, const Block& producer, const std::string& question,
                           int64_t lanes) {
  const Buffer buffer = c.s.output(producer);
  auto last = buffer->rank() < 2 ? std::nullopt : as_int(buffer->shape.back());
  if (!last || find_param(c.s, buffer->name) || c.s.consumers(producer).size() != 1) return;
  std::vector<int64_t> sizes = {0};  // 0: unchanged
  for (int64_t vectors : {1, 2, 4}) {
    if (vectors * lanes < *last) sizes.push_back(vectors * lanes);
  }
  if (sizes.size() == 1) return;
  const int64_t size = c.t.choose(question, sizes);
  if (size == 0) return;
  c.s.transform_layout(buffer->name, IndexMap::make(buffer->rank(), [&](const auto& x) {
                         std::vector<Expr> blocks = {floordiv(x.back(), size)};
                         blocks.insert(blocks.end(), x.begin(), x.end() - 1);
                         blocks.push_back(floormod(x.back(), size));
                         return blocks;
                       }));
}

}  // namespace tilewright
