#include "tuner/rules/gpu/chain/gpu_chain_rows.h"

#include <algorithm>
#include <string>

#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda/instructions/cuda_mma.h"
#include "codegen/cuda_lowering.h"
#include "kernel/instructions/wgmma_rows.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_packed_layout.h"
#include "tuner/rules/gpu/gpu_tensor_parts.h"
#include "tuner/rules/gpu/gpu_units.h"

namespace tilewright {
namespace {

// The type to which the weights are rounded, if they are.
std::optional<ElemType> rounded_elem(const BlockNode& weights) {
  auto* widened = store_of(weights).value.as<CastNode>();
  if (!widened || !is_float(widened->value.type().elem)) return std::nullopt;
  return widened->value.type().elem;
}

}  // namespace

std::optional<ElemType> chain_operand_elem(const Schedule& s, const SoftmaxChain& chain) {
  const BlockNode &scores = s.node(chain.scores), &product = s.node(chain.product);
  const ScoreOperands operands = score_operands(s, chain);
  const ElemType elem = read_elem(scores, operands.keys);
  const bool is_one = read_elem(scores, operands.rows) == elem &&
                      read_elem(product, value_operand(s, chain)) == elem &&
                      rounded_elem(s.node(chain.weights)) == elem &&
                      store_of(scores).buffer->elem == store_of(product).buffer->elem;
  return is_one ? std::optional(elem) : std::nullopt;
}

const Instruction* chained_row(ElemType elem, ElemType sums, const Target& target) {
  return first_row(mma_rows(), target.gpu.compute_capability, [&](const Instruction& row) {
    return row.takes({elem, elem, sums}) && row.split.empty() && row.k == 2 * kFragmentColumns &&
           row.m == kWarpRows && is_printed(row);
  });
}

void pad_chain_product(Schedule& s, const Block& block, const std::vector<int64_t>& multiples,
                       const std::vector<std::string*>& operands) {
  const std::string before = s.output(block)->name;
  const std::vector<std::string> inputs = inputs_of(s.node(block));
  s.pad_einsum(block, multiples);
  for (std::string* operand : operands) {
    const auto at = std::find(inputs.begin(), inputs.end(), *operand) - inputs.begin();
    *operand = inputs_of(s.node(block)).at(static_cast<size_t>(at));
  }
  if (s.output(block)->name != before) s.compute_inline(gpu_writer(s, before));
}

Block chain_copy_of(RuleContext& c, const Block& reader, const std::string& operand, Scope scope) {
  if (find_param(c.s, operand)) return c.s.cache_read(reader, operand, scope);
  c.s.set_scope(operand, scope);
  return gpu_writer(c.s, operand);
}

int64_t chain_vector(const RuleContext& c, const Block& copy) {
  // The source is the largest input. Others are lengths, tables, and scales of codes.
  int64_t row = 1, largest = 0;
  for (const std::string& name : inputs_of(c.s.node(copy))) {
    const Buffer& buffer = find_param(c.s, name)->buffer;
    int64_t elements = 1;
    for (const Expr& extent : buffer->shape) elements *= largest_extent(c.s, extent);
    if (elements <= largest) continue;
    largest = elements;
    row = largest_extent(c.s, buffer->shape.back());
  }
  int64_t vector = kAccessBits / bits_of(c.s.output(copy)->elem);
  while (row % vector != 0) vector /= 2;
  return vector;
}

void share_chain_copy(RuleContext& c, const Block& copy, int64_t threads, int64_t unrolled) {
  const int64_t vector = chain_vector(c, copy);
  const std::vector<Loop> loops = own_loops(c.s, copy);
  const Loop all = gpu_fused(c, {loops.end() - 2, loops.end()});
  while (as_int(c.s.node(all).extent).value() / vector % threads != 0) threads /= 2;
  gpu_deal(c, all, threads, vector, unrolled);
}

void pad_softmax_chain(Schedule& s, const SoftmaxChain& chain, int64_t rows, int64_t keys,
                       int64_t terms) {
  const size_t stacks = s.node(chain.top).iters.size() - 2;
  auto multiples = [&](std::vector<int64_t> own) {
    own.insert(own.begin(), stacks, 1);
    return own;
  };
  pad_chain_product(s, chain.scores, multiples({rows, keys, terms}));
  // Inlining simplifies expressions, which removes the index of a single row.
  const bool is_single = chain.rows == 1;
  if (is_single) index_single_row(s, chain);
  for (const Block& b : {chain.top, chain.weights}) s.pad_values(b, multiples({rows, keys}));
  pad_chain_product(s, chain.sum, multiples({rows, keys}));
  pad_chain_product(s, chain.product, multiples({rows, 1, keys}));
  if (is_single) index_single_row(s, chain);
}

std::vector<Loop> ChainRows::split(const Loop& i) const {
  return c_.s.split(i, {rows_ / warp_rows_, warp_rows_ / kWarpRows, kWarpRows});
}

void ChainRows::bind_softmax(const SoftmaxChain& chain, const std::vector<Block>& made,
                             int64_t keys) const {
  for (const Block& b : {chain.top, chain.sum}) reduce(b);
  bind_sums(chain.weights, keys);
  const std::string product = c_.s.output(chain.product)->name;
  for (const Block& b : made) {
    c_.s.output(b)->name == product ? bind_sums(b, chain.columns) : bind_values(b);
  }
  bind_sums(chain.result, chain.columns);
  std::vector<Block> blocks = {chain.scores, chain.top, chain.sum, chain.weights, chain.product};
  blocks.insert(blocks.end(), made.begin(), made.end());
  for (const Block& b : blocks) c_.s.set_scope(c_.s.output(b)->name, Scope::Register);
}

void ChainRows::bind_sums(const Block& block, int64_t columns) const {
  std::vector<Loop> loops = c_.s.loops(block);
  std::vector<Loop> i = split(loops[loops.size() - 2]);
  std::vector<Loop> j = c_.s.split(loops.back(), {columns / kFragmentColumns, kFragmentColumns});
  c_.s.reorder({i[0], i[1], j[0], i[2], j[1]});
  gpu_bind_lanes(c_, accumulators(kWarpRows), i[0], {i[1], j[0]}, i[2], j[1]);
}

void ChainRows::lay_out_operand(const Block& block, const Instruction& row) const {
  const int rank = c_.s.output(block)->rank();
  gpu_lay_out(c_, c_.s.output(block)->name, row.a_of_warp(), rank - 2, rank - 1);
}

void ChainRows::hold(const Block& copy, const Instruction& row) const {
  lay_out_operand(copy, row);
  const std::vector<Loop> loops = c_.s.loops(copy);
  const std::vector<Loop> i = split(loops[loops.size() - 2]);
  const std::vector<Loop> k = c_.s.split(loops.back(), {-1, kFragmentColumns});
  gpu_bind_lanes(c_, accumulators(row.m), i[0], {i[1], k[0]}, i[2], k[1]);
}

Loop ChainRows::multiply(const Block& block, const Instruction& row, int64_t span) const {
  const std::vector<Loop> loops = own_loops(c_.s, block);
  const size_t n = loops.size();
  std::vector<Loop> i, j = {loops[n - 2]}, steps;
  if (row.is_wgmma()) {  // a warpgroup's warps are warps of the tile, and it has all columns
    i = c_.s.split(loops[n - 3], {rows_ / kWarpRows, kWarpRows});
    steps = c_.s.split(loops[n - 1], {-1, span / row.k, row.k});
  } else {
    i = split(loops[n - 3]);
    j = c_.s.split(loops[n - 2], {-1, kFragmentColumns});
    steps = c_.s.split(loops[n - 1], {-1, row.k});
  }
  std::vector<Loop> inside(i.begin() + 1, i.end() - 1);  // fragments first
  inside.insert(inside.end(), j.begin(), j.end() - 1);
  inside.insert(inside.end(), {i.back(), j.back(), steps.back()});
  steps.pop_back();
  c_.s.reorder(gpu_in_order({{i[0]}, steps, inside}));
  // Decomposed before binding: the loops of the initialization are bound differently.
  if (c_.s.node(block).init.defined()) begin(block, i[0], row);
  c_.s.bind(i[0], ForKind::Warp);
  if (row.is_wgmma()) {
    inside.insert(inside.begin(), steps.begin(), steps.end());
  } else {
    c_.s.unroll(steps[0]);
  }
  Loop marked = gpu_first_of(c_, inside);
  c_.s.annotate(marked, kInstructionKey, std::string(row.name));
  return marked;
}

// Binds the initialization of a block's accumulators to the threads that hold them.
void ChainRows::begin(const Block& block, const Loop& warp, const Instruction& row) const {
  const std::vector<Loop> loops = c_.s.loops(block);
  const auto around =
      static_cast<size_t>(std::find(loops.begin(), loops.end(), warp) - loops.begin());
  const Block init = c_.s.decompose_reduction(block, warp);
  // decompose_reduction() does not copy loops of one iteration, so a loop over a single warp is
  // added again.
  if (rows_ == warp_rows_) c_.s.split(c_.s.loops(init)[around], {1, -1});
  gpu_bind_sums(c_, init, around, row);
}

ChainRows::RowLoops ChainRows::split_teams(const Loop& i) const {
  std::vector<Loop> l = c_.s.split(i, {rows_ / warp_rows_, warp_rows_ / kCoreRows, kCoreRows});
  return {l[0], l[1], l[2]};
}

void ChainRows::bind_team(const RowLoops& rows) const {
  const Loop team = c_.s.fuse({rows.warp, rows.team});
  c_.s.annotate(team, kTeamKey, int64_t{kCoreLanes});
  c_.s.bind(team, ForKind::Warp);
  c_.s.unroll(rows.band);
}

void ChainRows::bind_values(const Block& block) const {
  const RowLoops rows = split_teams(c_.s.loops(block).back());
  c_.s.reorder({rows.warp, rows.team, rows.band});
  bind_team(rows);
}

// A row maximum or sum: each lane reduces its own elements, then the lanes of a row reduce
// together.
void ChainRows::reduce(const Block& block) const {
  std::vector<Loop> loops = c_.s.loops(block);
  const RowLoops rows = split_teams(loops[loops.size() - 2]);
  std::vector<Loop> j = c_.s.split(loops.back(), {-1, kCoreLanes, kFragmentColumns / kCoreLanes});
  c_.s.reorder({rows.warp, rows.team, rows.band, j[1], j[0], j[2]});
  c_.s.annotate(j[1], kInstructionKey, std::string(kShuffle));
  c_.s.unroll(j[0]);
  c_.s.unroll(j[2]);
  bind_team(rows);
}

}  // namespace tilewright
