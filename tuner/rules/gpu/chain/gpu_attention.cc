#include "tuner/rules/gpu/chain/gpu_attention.h"

#include <algorithm>
#include <optional>

#include "codegen/cuda/cuda_masks.h"
#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda/instructions/cuda_wgmma_flight.h"
#include "codegen/cuda_lowering.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/chain/gpu_chain_rows.h"
#include "tuner/rules/gpu/chain/gpu_softmax_parts.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_tensor_parts.h"
#include "tuner/rules/gpu/gpu_units.h"

namespace tilewright {
namespace {

// Elements per row of shared memory: the widest swizzle atom that divides the extent.
int64_t span_of_row(int64_t extent, const Instruction& row) {
  int64_t span = kSpanBytes * 8 / row.operand_bits();
  while (extent % span != 0) span /= 2;
  return span;
}

// Inlines blocks that make an operand (look up key pages, pack heads) into the block that pads it,
// if any.
void inline_makers(RuleContext& c, const SoftmaxChain& chain) {
  const ScoreOperands operands = score_operands(c.s, chain);
  for (const Block& b : chain.operands) {
    const std::string made = c.s.output(b)->name;
    const bool read =
        made == operands.rows || made == operands.keys || made == value_operand(c.s, chain);
    if (!read) c.s.compute_inline(b);
  }
}

// Copies the elements by all threads in turns, as 16-byte vectors. Each thread copies its whole
// share of all swizzle atoms in one loop: between two thread loops over one array there would be a
// barrier.
void share_atoms(RuleContext& c, const Block& copy, int64_t threads) {
  const int64_t vector = chain_vector(c, copy);
  const std::vector<Loop> loops = own_loops(c.s, copy);
  const Loop of_span = gpu_fused(c, {loops.end() - 2, loops.end()});
  const Loop spans = gpu_fused(c, {loops.begin(), loops.end() - 2});
  const int64_t pieces = as_int(c.s.node(of_span).extent).value() / vector;
  threads = std::min(threads, pieces);
  while (pieces % threads != 0) --threads;
  const std::vector<Loop> parts = c.s.split(of_span, {-1, threads, vector});
  c.s.reorder({parts[1], spans, parts[0], parts[2]});
  c.s.bind(parts[1], ForKind::ThreadX);
  c.s.unroll(spans);
  c.s.unroll(parts[0]);
  c.s.vectorize(parts[2]);
}

// Copies an operand under a loop to where instructions read it: to registers, or to shared memory,
// in rows of `columns` elements. Warpgroups read rows in consecutive swizzle atoms.
void bring(RuleContext& c, const AttentionPlan& plan, const Block& reader,
           const std::string& operand, int64_t columns, const Loop& at, const std::string& copies,
           bool in_registers) {
  // With few threads each copies many vectors; not all their addresses are kept in registers.
  constexpr int64_t kUnrolled = 8;
  const ChainTile& tile = plan.answers.tile;
  const Block copy =
      chain_copy_of(c, reader, operand, in_registers ? Scope::Register : Scope::Shared);
  const std::string name = c.s.output(copy)->name;
  const bool is_wgmma = plan.scores->is_wgmma();
  const int64_t span = is_wgmma ? span_of_row(columns, *plan.scores) : columns;
  if (span < columns) gpu_lay_terms_in_spans(c, name, span);
  c.s.compute_at(copy, at);
  if (in_registers) return ChainRows(c, tile.rows, tile.warp_rows).hold(copy, *plan.scores);
  if (gpu_copies_boxes(copies)) return gpu_copy_boxes(c, name);
  is_wgmma ? share_atoms(c, copy, tile.threads())
           : share_chain_copy(c, copy, tile.threads(), kUnrolled);
}

}  // namespace

OnlineLoops build_attention(RuleContext& c, SoftmaxChain chain, const AttentionPlan& plan) {
  const auto& [tile, in_registers, stages] = plan.answers;
  c.s.store_rounded(chain.weights);
  pad_softmax_chain(c.s, chain, tile.rows, tile.step * plan.parts, plan.product->k);
  inline_makers(c, chain);
  const ScoreOperands operands = score_operands(c.s, chain);
  std::optional<KeyParts> parts;
  if (plan.parts > 1) parts = split_keys(c.s, chain, plan.parts);
  OnlineLoops loops = parts ? place_key_parts(c.s, chain, *parts, tile.rows, tile.step)
                            : place_softmax_chain(c.s, chain, tile.rows, tile.step);
  // Bound while each block still stores its results whole: disjoint tiles cannot be recognized in
  // pieces.
  c.s.bind(loops.tile, ForKind::BlockX);
  bring(c, plan, chain.scores, operands.rows, plan.terms, loops.tile, kByCpAsync, in_registers);
  bring(c, plan, chain.scores, operands.keys, plan.terms, loops.step, plan.copies, false);
  bring(c, plan, chain.product, value_operand(c.s, chain), chain.columns, loops.step, plan.copies,
        false);
  // A second copy of the weights: the product reads it while the next keys' weights are computed.
  std::optional<Block> held;
  if (plan.overlaps) {
    held = c.s.cache_read(chain.product, c.s.output(chain.weights)->name, Scope::Register);
  }
  const ChainRows rows(c, tile.rows, tile.warp_rows);
  for (const Block& b : {chain.scores, chain.product}) gpu_lay_out_sums(c, b, kWarpRows);
  rows.lay_out_operand(chain.weights, *plan.product);
  if (held) rows.lay_out_operand(*held, *plan.product);
  rows.multiply(chain.scores, *plan.scores, span_of_row(plan.terms, *plan.scores));
  const Loop values = rows.multiply(chain.product, *plan.product, tile.step);
  if (held) c.s.annotate(values, kWgmmaBehindKey, int64_t{1});
  rows.bind_softmax(chain, loops.made, tile.step);
  if (held) rows.bind_sums(*held, tile.step);
  if (parts) {
    for (const Block& b : parts->left) rows.bind_values(b);
  }
  c.s.annotate(loops.tile, kSharedRowsKey, std::string(kSwizzled));
  if (stages > 1) c.s.annotate(loops.step, kPipelineStagesKey, stages);
  if (gpu_copies_boxes(plan.copies)) c.s.annotate(loops.step, kCopiesKey, plan.copies);
  c.s.annotate(loops.step, kMasksApartKey, int64_t{1});
  if (parts) gpu_join_key_parts(c, *parts);
  return loops;
}

}  // namespace tilewright
