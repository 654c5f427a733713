#include "tuner/rules/gpu/chain/gpu_ask_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/ceil_div.h"
#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda/cuda_tile_order.h"
#include "ir/type.h"
#include "ir/visitor.h"
#include "kernel/instructions/wgmma_rows.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/chain/gpu_attention.h"
#include "tuner/rules/gpu/chain/gpu_chain_rows.h"
#include "tuner/rules/gpu/chain/gpu_softmax_parts.h"
#include "tuner/rules/gpu/gpu_units.h"

namespace tilewright {
namespace {

constexpr const char* kOverValues = "values";
constexpr const char* kNothing = "none";
constexpr const char* kLongestFirst = "longest_first";
constexpr const char* kByRows = "rows";
constexpr int64_t kOverlapStages = 3;  // of keys and values, where their product overlaps

// The warpgroups' instruction of `columns` columns for these operands and f32 accumulators; null if
// the target has none.
const Instruction* wgmma_of(ElemType elem, int64_t columns, const Target& target) {
  if (bits_of(elem) != 16) return nullptr;  // others cannot run across k, as values do
  return first_row(wgmma_rows(), target.gpu.compute_capability, [&](const Instruction& row) {
    return row.takes({elem, elem, ElemType::f32}) && row.n == columns;
  });
}

// The chain by an instruction of this kind, with no tiles yet.
AttentionChain attention_by(RuleContext& c, const SoftmaxChain& chain, const Instruction& row) {
  AttentionChain a{chain, {&row, chain.rows, chain.keys}, {}};
  const int64_t terms = largest_extent(c.s, c.s.node(chain.scores).iters.back().extent);
  a.shape.terms = round_up(terms, row.k);
  a.shape.columns = chain.columns;
  for (int64_t extent : analyze(c.s, chain.top).extents) a.shape.stacks *= extent;
  a.shape.stacks /= chain.rows * chain.keys;
  return a;
}

std::optional<AttentionChain> with_tiles(RuleContext& c, AttentionChain attention,
                                         std::vector<ChainTile> tiles) {
  constexpr int64_t kLeastStep = 32;
  attention.tiles = chain_tiles(attention.shape, std::move(tiles), kLeastStep, c.input.target.gpu);
  return attention.tiles.empty() ? std::nullopt : std::optional(std::move(attention));
}

// Whether tensor maps can describe keys and values: rows of multiples of 16 bytes.
bool are_boxes(const RuleContext& c, const AttentionChain& a) {
  const std::string keys = score_operands(c.s, a.chain).keys;
  for (const std::string& operand : {keys, value_operand(c.s, a.chain)}) {
    const Param* from = find_param(c.s, operand);
    const auto row = from ? as_int(from->buffer->shape.back()) : std::nullopt;
    const bool fits =
        row && from->buffer->rank() <= 4 && *row * a.shape.row->operand_bits() % kAccessBits == 0;
    if (!fits) return false;
  }
  return true;
}

// Tiles that see more keys may run first, if the number of tiles is static. Asks last, of the built
// loops: only they tell whether tiles differ.
void order_tiles(RuleContext& c, const AttentionChain& a, const OnlineLoops& loops, int64_t rows) {
  const int64_t tiles = ceil_div(a.chain.rows, rows);
  const ForNode& tile = c.s.node(loops.tile);
  const bool differ = uses_var(c.s.node(loops.step).extent, tile.var);
  if (!differ || !as_int(tile.extent) || tiles == 1) return;
  const bool longest_first =
      c.t.choose(a.chain.top.name + ".order", std::vector<std::string>{kLongestFirst, kByRows}) ==
      kLongestFirst;
  if (longest_first)
    c.s.annotate(loops.tile, kTileOrderKey, TileOrder{.longest_last = tiles}.text());
}

AttentionPlan ask_warps(RuleContext& c, const AttentionChain& a) {
  const Instruction* row = a.shape.row;
  AttentionPlan plan{row, row, choose_chain_tile(c, a.chain.top, a.shape, a.tiles), a.shape.terms};
  const ChainTile& tile = plan.answers.tile;
  plan.parts = gpu_choose_key_parts(c, a.chain, a.shape.blocks(tile), tile.step, true);
  return plan;
}

AttentionPlan ask_warpgroups(RuleContext& c, const AttentionChain& a) {
  const std::string name = a.chain.top.name;
  const Instruction& row = *a.shape.row;
  AttentionPlan plan;
  ChainTile& tile = plan.answers.tile;
  tile = c.t.choose_among(name + ".tile", a.tiles, [](const ChainTile& option) {
    return fmt::format("{}x{}/{}", option.rows, option.step, kWarpgroupRows);
  });
  plan.scores = wgmma_of(row.operand, tile.step, c.input.target);
  plan.product = &row;
  plan.terms = a.shape.terms;
  plan.answers.in_registers = false;
  auto fits = [&](int64_t stages) {
    return a.shape.bytes(tile, stages, false) <= c.input.target.gpu.shared_per_block;
  };
  std::vector<std::string> ways = {kByRoles, kByThreads, kByCpAsync};
  if (!are_boxes(c, a)) ways = {kByCpAsync};
  plan.copies = c.t.choose(name + ".copies", ways);
  if (plan.copies == kByRoles && fits(kOverlapStages)) {
    plan.overlaps = c.t.choose(name + ".overlap",
                               std::vector<std::string>{kOverValues, kNothing}) == kOverValues;
  }
  std::vector<int64_t> depths = {2, 3, 4};
  if (plan.overlaps) depths.erase(depths.begin());
  if (!gpu_copies_boxes(plan.copies)) depths.push_back(1);
  std::erase_if(depths, [&](int64_t n) { return n > depths.front() && !fits(n); });
  plan.answers.stages = c.t.choose(name + ".stages", depths);
  return plan;
}

}  // namespace

std::optional<AttentionChain> gpu_attention_by_warps(RuleContext& c, const SoftmaxChain& chain) {
  const std::optional<ElemType> elem = chain_operand_elem(c.s, chain);
  const ElemType sums = c.s.output(chain.scores)->elem;
  const Instruction* row = elem ? chained_row(*elem, sums, c.input.target) : nullptr;
  if (!row || chain.columns % (2 * kFragmentColumns) != 0) return std::nullopt;
  std::vector<ChainTile> tiles = {{128, 64, 16},  {64, 64, 16}, {128, 64, 32}, {64, 128, 16},
                                  {128, 128, 16}, {64, 32, 16}, {32, 64, 16},  {32, 32, 16},
                                  {32, 16, 16},   {16, 32, 16}, {16, 64, 16},  {16, 128, 16},
                                  {16, 16, 16}};
  // Tiles with fewer rows than needed would load keys more often. For few rows the lowest tiles
  // come first.
  auto is_low = [](const ChainTile& tile) { return tile.rows == 16; };
  if (chain.rows > 32) std::erase_if(tiles, is_low);
  if (chain.rows <= 16) std::stable_partition(tiles.begin(), tiles.end(), is_low);
  return with_tiles(c, attention_by(c, chain, *row), std::move(tiles));
}

std::optional<AttentionChain> gpu_attention_by_warpgroups(RuleContext& c,
                                                          const SoftmaxChain& chain) {
  const Target& target = c.input.target;
  const std::optional<ElemType> elem = chain_operand_elem(c.s, chain);
  const bool is_f32 = c.s.output(chain.scores)->elem == ElemType::f32;
  if (!elem || !is_f32 || chain.columns % kWarpRows != 0) return std::nullopt;
  const Instruction* row = wgmma_of(*elem, chain.columns, target);
  if (!row) return std::nullopt;
  constexpr int64_t kSizes[][2] = {{128, 128}, {128, 176}, {192, 128}, {128, 96}, {128, 80},
                                   {128, 64},  {192, 64},  {64, 128},  {64, 64},  {64, 32}};
  std::vector<ChainTile> tiles;
  for (const auto& [rows, keys] : kSizes) {
    if (wgmma_of(*elem, keys, target)) tiles.push_back({rows, keys, kWarpRows});
  }
  return with_tiles(c, attention_by(c, chain, *row), std::move(tiles));
}

void gpu_attend(RuleContext& c, const AttentionChain& a) {
  if (!a.shape.row->is_wgmma()) return void(build_attention(c, a.chain, ask_warps(c, a)));
  const AttentionPlan plan = ask_warpgroups(c, a);
  order_tiles(c, a, build_attention(c, a.chain, plan), plan.answers.tile.rows);
}

}  // namespace tilewright
