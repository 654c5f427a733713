#include "tuner/rules/softmax_chain.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "ir/visitor.h"
#include "schedule/primitives/loops/reduction.h"
#include "tuner/rules/analysis.h"

namespace tilewright {
namespace {

bool is_maximum(const BlockNode& block) { return match_reduction(block).reducer == Reducer::Max; }

bool has(const std::vector<Block>& list, const Block& block) {
  return std::find(list.begin(), list.end(), block) != list.end();
}

// The only block of `list` with this role that takes no maximum, or nothing. A maximum of scores to
// which a mask is added has the role of a contraction.
std::optional<Block> only(const Schedule& s, const std::vector<Block>& list, BlockRole role) {
  std::optional<Block> found;
  for (const Block& b : list) {
    if (analyze(s, b).role != role || is_maximum(s.node(b))) continue;
    if (found) return std::nullopt;
    found = b;
  }
  return found;
}

// Whether these indices are the block's spatial iterators, in order.
bool in_order(const BlockNode& block, const std::vector<Expr>& indices) {
  size_t d = 0;
  for (const IterVar& iter : block.iters) {
    if (iter.kind == IterKind::Reduce) continue;
    if (d == indices.size()) return false;
    bool here = indices[d].same_as(iter.var) || (is_int(iter.extent, 1) && is_int(indices[d], 0));
    if (!here) return false;
    ++d;
  }
  return d == indices.size();
}

// The block that takes the weights from the scores (or terms of them) and their maximum, or nothing.
std::optional<Block> weights_of(const Schedule& s, const Block& top, const Block& scores) {
  std::optional<Block> found;
  for (const Block& b : s.consumers(top)) {
    if (!has(s.producers(b), scores)) continue;
    if (found || analyze(s, b).role != BlockRole::Injective) return std::nullopt;
    found = b;
  }
  return found;
}

}  // namespace

namespace {

size_t read_rank(const Schedule& s, const Block& reader, const std::string& buffer) {
  return indices_of(s.node(reader), buffer).size();
}

// Whether the block reads or writes element 0 along a dimension of the buffer.
bool is_at_zero(const BlockNode& block, const std::string& buffer, size_t dim) {
  const StoreNode& store = store_of(block);
  bool found = store.buffer->name == buffer && is_int(store.indices[dim], 0);
  for_each_expr(store.value, [&](const Expr& e) {
    auto* n = e.as<LoadNode>();
    found |= n && n->buffer->name == buffer && is_int(n->indices[dim], 0);
  });
  return found;
}

// Injective blocks that make operands from parameters, for `reader` only.
std::vector<Block> makers_of_operands(const Schedule& s, const Block& reader) {
  std::vector<Block> makers;
  for (const Block& p : s.producers(reader)) {
    bool ours = analyze(s, p).role == BlockRole::Injective && s.producers(p).empty() &&
                s.consumers(p).size() == 1;
    if (ours) makers.push_back(p);
  }
  return makers;
}

}  // namespace

std::optional<SoftmaxChain> find_softmax_chain(const Schedule& s) {
  const std::vector<Block> blocks = s.blocks();
  auto top = std::find_if(blocks.begin(), blocks.end(),
                          [&](const Block& b) { return is_maximum(s.node(b)); });
  if (top == blocks.end()) return std::nullopt;
  auto scores = only(s, s.producers(*top), BlockRole::Contraction);
  auto terms = scores ? std::nullopt : only(s, s.producers(*top), BlockRole::Injective);
  if (terms) scores = only(s, s.producers(*terms), BlockRole::Contraction);
  if (!scores) return std::nullopt;
  const std::optional<Block> weights = weights_of(s, *top, terms.value_or(*scores));
  if (!weights) return std::nullopt;
  const std::vector<Block> sums = s.consumers(*weights);
  auto sum = only(s, sums, BlockRole::RowReduction),
       product = only(s, sums, BlockRole::Contraction);
  if (!sum || !product) return std::nullopt;
  const Block& result = blocks.back();
  // The result may add a weight of its own to the sum, by the row's maximum.
  const size_t reads = has(s.producers(result), *top) ? 3 : 2;
  bool last = has(s.producers(result), *sum) && has(s.producers(result), *product) &&
              s.producers(result).size() == reads &&
              analyze(s, result).role == BlockRole::Injective;
  if (!last) return std::nullopt;
  std::vector<Block> makers = makers_of_operands(s, *scores);
  for (const Block& b : makers_of_operands(s, *product)) makers.push_back(b);
  if (blocks.size() != (terms ? 7 : 6) + makers.size()) return std::nullopt;
  for (const Block& b : blocks) {
    bool reduces = b == *scores || b == *top || b == *sum || b == *product;
    // The result may be stored in another order than that of its loops.
    const std::vector<Expr> indices =
        b == result ? indices_of(s.node(b), s.output(*product)->name) : store_of(s.node(b)).indices;
    if (analyze(s, b).reduce.size() != (reduces ? 1 : 0) || !in_order(s.node(b), indices)) {
      return std::nullopt;
    }
  }
  std::vector<std::string> operands = inputs_of(s.node(*scores));
  for (const std::string& name : inputs_of(s.node(*product))) {
    if (name != s.output(*weights)->name) operands.push_back(name);
  }
  bool given = std::all_of(operands.begin(), operands.end(), [&](const std::string& name) {
    bool made = std::any_of(makers.begin(), makers.end(),
                            [&](const Block& b) { return s.output(b)->name == name; });
    return made || find_param(s, name);
  });
  if (!given || operands.size() != 3) return std::nullopt;
  const BlockFacts of_top = analyze(s, *top), of_result = analyze(s, result);
  const std::vector<int64_t>& rows = of_top.extents;
  // If rows or keys are not an iterator, there is nothing to tile.
  if (rows.size() < 2) return std::nullopt;
  // Tiles hold the whole k of a score and all columns.
  if (analyze(s, *scores).dynamic.back() || of_result.dynamic.back()) return std::nullopt;
  const std::vector<bool>& at_launch = of_top.dynamic;
  return SoftmaxChain{*scores,
                      *top,
                      *weights,
                      *sum,
                      *product,
                      result,
                      rows[rows.size() - 2],
                      rows.back(),
                      of_result.extents.back(),
                      makers,
                      at_launch[rows.size() - 2],
                      at_launch.back(),
                      terms};
}

void follow_product(Schedule& s) {
  const Block result = s.blocks().back();
  std::optional<Block> product = only(s, s.producers(result), BlockRole::Contraction);
  if (!product) return;
  const BlockNode& n = s.node(result);
  const size_t rank = n.iters.size();
  std::vector<size_t> order;
  for (const Expr& index : indices_of(n, s.output(*product)->name)) {
    for (size_t i = 0; i < rank; ++i) {
      const bool reads =
          index.same_as(n.iters[i].var) || (is_int(index, 0) && is_int(n.iters[i].extent, 1));
      if (!reads || std::find(order.begin(), order.end(), i) != order.end()) continue;
      order.push_back(i);
      break;
    }
  }
  if (order.size() != rank || std::is_sorted(order.begin(), order.end())) return;
  s.transform_block_layout(result,
                           IndexMap::make(static_cast<int>(rank), [&](const std::vector<Var>& x) {
                             std::vector<Expr> out;
                             for (size_t iter : order) out.push_back(x[iter]);
                             return out;
                           }));
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
  const std::string& weights = s.output(chain.weights)->name;
  for (const std::string& name : inputs_of(s.node(chain.product))) {
    if (name != weights) return name;
  }
  return "";
}

std::optional<Block> maker_of(const Schedule& s, const SoftmaxChain& chain,
                              const std::string& operand) {
  for (const Block& b : chain.operands) {
    if (s.output(b)->name == operand) return b;
  }
  return std::nullopt;
}

int64_t heads_of_keys(const Schedule& s, const SoftmaxChain& chain) {
  int64_t heads = 0;
  for (const auto& [block, operand] : {std::pair{chain.scores, score_operands(s, chain).keys},
                                       {chain.product, value_operand(s, chain)}}) {
    const BlockNode& n = s.node(block);
    if (n.iters.size() < 4) return 1;
    const Var& head = n.iters[n.iters.size() - 4].var;
    for (const Expr& index : indices_of(n, operand)) {
      if (!uses_var(index, head)) continue;
      auto* quotient = index.as<BinaryNode>();
      bool shared = quotient && quotient->op == BinaryOp::FloorDiv && quotient->a.same_as(head);
      auto by = shared ? as_int(quotient->b) : std::nullopt;
      if (!by || (heads != 0 && heads != *by)) return 1;
      heads = *by;
    }
  }
  const BlockNode& top = s.node(chain.top);
  auto all = heads > 0 ? as_int(top.iters[top.iters.size() - 3].extent) : std::nullopt;
  return all && *all % heads == 0 ? heads : 1;
}

void pack_heads(Schedule& s, SoftmaxChain& chain, int64_t heads) {
  const size_t head = s.node(chain.top).iters.size() - 3;
  auto map = [&](size_t rank, bool split) {
    return IndexMap::make(static_cast<int>(rank), [&](const std::vector<Var>& x) {
      std::vector<Expr> out(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(head));
      if (split) {
        out.push_back(floordiv(x[head], heads));
        out.push_back(floormod(x[head], heads));
      } else {
        out.push_back(x[head]);
        out.push_back(x[head + 1] * chain.rows + x[head + 2]);
      }
      out.insert(out.end(), x.begin() + static_cast<std::ptrdiff_t>(head) + (split ? 1 : 3),
                 x.end());
      return out;
    });
  };
  std::vector<Block> blocks = {chain.scores, chain.top, chain.weights, chain.sum, chain.product};
  if (chain.terms) blocks.push_back(*chain.terms);
  for (const Block& b : blocks) {
    const Buffer buffer = s.output(b);
    const size_t rank = buffer->shape.size();
    s.transform_layout(buffer->name, map(rank, true));
    s.transform_layout(buffer->name, map(rank + 1, false));
  }
  blocks.push_back(chain.result);
  for (const Block& b : blocks) {
    const size_t rank = s.node(b).iters.size();
    s.transform_block_layout(b, map(rank, true));
    s.transform_block_layout(b, map(rank + 1, false));
  }
  chain.operands.push_back(s.reindex(chain.scores, score_operands(s, chain).rows));
  chain.rows *= heads;
}

void index_single_row(Schedule& s, const SoftmaxChain& chain) {
  const std::vector<Block> blocks = {chain.scores, chain.top,     chain.weights,
                                     chain.sum,    chain.product, chain.result};
  // In buffers with keys or columns, rows are the second-to-last dimension.
  std::map<std::string, size_t> row_of;
  const std::string rows = score_operands(s, chain).rows;
  const auto rank = read_rank(s, chain.scores, rows);
  if (rank >= 2) row_of[rows] = rank - 2;
  for (const Block& b : blocks) {
    const Buffer& buffer = s.output(b);
    const bool is_of_row = b == chain.top || b == chain.sum;
    row_of[buffer->name] = static_cast<size_t>(buffer->rank()) - (is_of_row ? 1 : 2);
  }
  for (const Block& b : blocks) {
    const size_t behind = b == chain.scores || b == chain.product ? 3 : 2;
    const std::vector<IterVar>& iters = s.node(b).iters;
    const std::string row = iters[iters.size() - behind].var.name();
    for (const auto& [buffer, dim] : row_of) {
      if (is_at_zero(s.node(b), buffer, dim)) s.unit_index(b, buffer, dim, row);
    }
  }
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
  place_scores(s, chain, step);
  return result;
}

void place_scores(Schedule& s, const SoftmaxChain& chain, const Loop& step) {
  if (chain.terms) s.compute_at(*chain.terms, step);
  s.compute_at(chain.scores, step);
}

void inline_terms(Schedule& s, SoftmaxChain& chain) {
  if (chain.terms) s.compute_inline(*chain.terms);
  chain.terms.reset();
}

void lay_rows_last(Schedule& s, const SoftmaxChain& chain) {
  std::vector<Block> blocks = {chain.scores, chain.weights};
  if (chain.terms) blocks.push_back(*chain.terms);
  for (const Block& b : blocks) {
    const Buffer& buffer = s.output(b);
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
