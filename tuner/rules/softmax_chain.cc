#include "tuner/rules/softmax_chain.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/visitor.h"
#include "schedule/primitives/reduction.h"
#include "tuner/rules/analysis.h"

namespace tilewright {
namespace {

bool is_maximum(const BlockNode& block) { return match_reduction(block).reducer == Reducer::Max; }

bool has(const std::vector<Block>& list, const Block& block) {
  return std::find(list.begin(), list.end(), block) != list.end();
}

// The only block of `list` that has this role, or nothing.
std::optional<Block> only(const Schedule& s, const std::vector<Block>& list, BlockRole role) {
  std::optional<Block> found;
  for (const Block& b : list) {
    if (analyze(s, b).role != role) continue;
    if (found) return std::nullopt;
    found = b;
  }
  return found;
}

// Whether the block stores at its spatial iterators, in their order.
bool in_order(const BlockNode& block) {
  size_t d = 0;
  const std::vector<Expr>& indices = store_of(block).indices;
  for (const IterVar& iter : block.iters) {
    if (iter.kind == IterKind::Reduce) continue;
    if (d == indices.size()) return false;
    bool here = indices[d].same_as(iter.var) || (is_int(iter.extent, 1) && is_int(indices[d], 0));
    if (!here) return false;
    ++d;
  }
  return d == indices.size();
}

}  // namespace

std::optional<SoftmaxChain> find_softmax_chain(const Schedule& s) {
  const std::vector<Block> blocks = s.blocks();
  if (blocks.size() != 6) return std::nullopt;
  auto top = std::find_if(blocks.begin(), blocks.end(),
                          [&](const Block& b) { return is_maximum(s.node(b)); });
  if (top == blocks.end()) return std::nullopt;
  auto scores = only(s, s.producers(*top), BlockRole::Contraction);
  auto weights = only(s, s.consumers(*top), BlockRole::Injective);
  if (!scores || !weights || !has(s.producers(*weights), *scores)) return std::nullopt;
  const std::vector<Block> sums = s.consumers(*weights);
  auto sum = only(s, sums, BlockRole::RowReduction),
       product = only(s, sums, BlockRole::Contraction);
  if (!sum || !product) return std::nullopt;
  const Block& result = blocks.back();
  bool last = has(s.producers(result), *sum) && has(s.producers(result), *product) &&
              s.producers(result).size() == 2 && analyze(s, result).role == BlockRole::Injective;
  if (!last) return std::nullopt;
  for (const Block& b : blocks) {
    const BlockFacts facts = analyze(s, b);
    bool fixed = std::none_of(facts.dynamic.begin(), facts.dynamic.end(), [](bool d) { return d; });
    bool reduces = b == *scores || b == *top || b == *sum || b == *product;
    if (!fixed || facts.reduce.size() != (reduces ? 1 : 0) || !in_order(s.node(b))) {
      return std::nullopt;
    }
  }
  std::vector<std::string> operands = inputs_of(s.node(*scores));
  for (const std::string& name : inputs_of(s.node(*product))) {
    if (name != store_of(s.node(*weights)).buffer->name) operands.push_back(name);
  }
  bool given = operands.size() == 3 && std::all_of(operands.begin(), operands.end(),
                                                   [&](auto& name) { return find_param(s, name); });
  if (!given) return std::nullopt;
  const std::vector<int64_t> rows = analyze(s, *top).extents;
  // One row, or one of its dimensions that is no iterator, leaves nothing to tile.
  if (rows.size() < 2) return std::nullopt;
  const int64_t columns = analyze(s, result).extents.back();
  return SoftmaxChain{*scores,     *top,   *weights, *sum, *product, result, rows[rows.size() - 2],
                      rows.back(), columns};
}

ScoreOperands score_operands(const Schedule& s, const SoftmaxChain& chain) {
  const BlockNode& scores = s.node(chain.scores);
  const Var& row = scores.iters[scores.iters.size() - 3].var;
  ScoreOperands operands;
  for (const std::string& name : inputs_of(scores)) {
    const std::vector<Expr> indices = indices_of(scores, name);
    bool has_rows = std::any_of(indices.begin(), indices.end(),
                                [&](const Expr& e) { return uses_var(e, row); });
    (has_rows ? operands.rows : operands.keys) = name;
  }
  return operands;
}

std::string value_operand(const Schedule& s, const SoftmaxChain& chain) {
  for (const std::string& name : inputs_of(s.node(chain.product))) {
    if (find_param(s, name)) return name;
  }
  return "";
}

OnlineLoops place_softmax_chain(Schedule& s, const SoftmaxChain& chain, int64_t row_tile,
                                int64_t key_tile) {
  std::vector<Loop> loops = s.loops(chain.result);
  std::vector<Loop> rows(loops.begin(), loops.end() - 1);
  rows.back() = s.split(rows.back(), {-1, row_tile})[0];
  OnlineLoops result;
  result.tile = rows.size() > 1 ? s.fuse(rows) : rows[0];
  for (const Block& b : {chain.product, chain.sum, chain.weights, chain.top}) {
    s.compute_at(b, result.tile);
  }
  auto [step, made] = s.online_softmax(chain.top, key_tile);
  result.step = step;
  result.made = std::move(made);
  s.compute_at(chain.scores, step);
  return result;
}

void lay_rows_last(Schedule& s, const SoftmaxChain& chain) {
  for (const Block& b : {chain.scores, chain.weights}) {
    const Buffer& buffer = store_of(s.node(b)).buffer;
    const size_t rank = buffer->shape.size();
    s.transform_layout(buffer->name, moved_index(rank, rank - 2, rank - 1));
  }
}

std::vector<Loop> own_loops(const Schedule& s, const Block& block) {
  std::vector<Loop> loops = s.loops(block);
  const size_t own = s.node(block).iters.size();
  return {loops.end() - static_cast<std::ptrdiff_t>(own), loops.end()};
}

}  // namespace tilewright
