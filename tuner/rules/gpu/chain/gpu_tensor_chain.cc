#include "tuner/rules/gpu/chain/gpu_tensor_chain.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/ceil_div.h"
#include "ir/type.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/chain/gpu_attention.h"
#include "tuner/rules/gpu/chain/gpu_chain_rows.h"
#include "tuner/rules/gpu/chain/gpu_softmax_parts.h"
#include "tuner/rules/gpu/gpu_units.h"

namespace tilewright {

std::optional<TensorChain> gpu_tensor_chain_of(RuleContext& c, const SoftmaxChain& chain) {
  const BlockNode& scores = c.s.node(chain.scores);
  const std::optional<ElemType> elem = chain_operand_elem(c.s, chain);
  TensorChain t{chain, {}, {}};
  ChainShape& shape = t.shape;
  if (elem) shape.row = chained_row(*elem, store_of(scores).buffer->elem, c.input.target);
  if (!shape.row || chain.columns % (2 * kFragmentColumns) != 0) return std::nullopt;
  shape.rows = chain.rows;
  shape.between = chain.keys;
  shape.terms = round_up(largest_extent(c.s, scores.iters.back().extent), shape.row->k);
  shape.columns = chain.columns;
  for (int64_t extent : analyze(c.s, chain.top).extents) shape.stacks *= extent;
  shape.stacks /= chain.rows * chain.keys;
  std::vector<ChainTile> tiles = {{128, 64, 16},  {64, 64, 16}, {128, 64, 32}, {64, 128, 16},
                                  {128, 128, 16}, {64, 32, 16}, {32, 64, 16},  {32, 32, 16},
                                  {32, 16, 16},   {16, 32, 16}, {16, 64, 16},  {16, 128, 16},
                                  {16, 16, 16}};
  // Tiles with fewer rows than needed would load keys more often. For few rows the lowest tiles
  // come first.
  auto is_low = [](const ChainTile& tile) { return tile.rows == 16; };
  if (chain.rows > 32) std::erase_if(tiles, is_low);
  if (chain.rows <= 16) std::stable_partition(tiles.begin(), tiles.end(), is_low);
  t.tiles = chain_tiles(shape, std::move(tiles), 32, c.input.target.gpu);
  return t.tiles.empty() ? std::nullopt : std::optional(t);
}

void gpu_tensor_chain(RuleContext& c, const TensorChain& t) {
  const Instruction* row = t.shape.row;
  AttentionPlan plan{row, row, choose_chain_tile(c, t.chain.top, t.shape, t.tiles), t.shape.terms};
  const ChainTile& tile = plan.answers.tile;
  plan.parts = gpu_choose_key_parts(c, t.chain, t.shape.blocks(tile), tile.step, true);
  build_attention(c, t.chain, plan);
}

}  // namespace tilewright
