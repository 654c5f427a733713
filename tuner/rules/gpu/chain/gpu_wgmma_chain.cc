#include "tuner/rules/gpu/chain/gpu_wgmma_chain.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ceil_div.h"
#include "codegen/cuda/cuda_roles.h"
#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda/cuda_tile_order.h"
#include "ir/type.h"
#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/chain/gpu_attention.h"
#include "tuner/rules/gpu/chain/gpu_chain_rows.h"
#include "tuner/rules/gpu/gpu_units.h"

namespace tilewright {
namespace {

constexpr const char* kOverValues = "values";
constexpr const char* kNothing = "none";
constexpr const char* kLongestFirst = "longest_first";
constexpr const char* kByRows = "rows";
constexpr int64_t kOwnRegisters = 30;  // registers for addresses, loops, row maxima and sums

// The instruction of `columns` columns for 16-bit operands and f32 accumulators; null if the target
// has none.
const Instruction* row_for(ElemType elem, int64_t columns, const Target& target) {
  const Instruction* row =
      find_instruction(fmt::format("m64n{}k16_f32_{}", columns, to_string(elem)));
  return row && row->runs_on(target.gpu.compute_capability) ? row : nullptr;
}

// Whether tensor maps can describe keys and values: rows of multiples of 16 bytes.
bool are_boxes(const RuleContext& c, const WgmmaChain& t) {
  const std::string keys = score_operands(c.s, t.chain).keys;
  for (const std::string& operand : {keys, value_operand(c.s, t.chain)}) {
    const Param* from = find_param(c.s, operand);
    const auto row = from ? as_int(from->buffer->shape.back()) : std::nullopt;
    const bool fits = row && from->buffer->rank() <= 4 && *row * bits_of(t.elem) % kAccessBits == 0;
    if (!fits) return false;
  }
  return true;
}

// Tiles that see more keys may run first, if the number of tiles is static. Asks last, of the built
// loops: only they tell whether tiles differ.
void order_tiles(RuleContext& c, const WgmmaChain& t, const OnlineLoops& loops, int64_t rows) {
  const int64_t tiles = ceil_div(t.chain.rows, rows);
  const ForNode& tile = c.s.node(loops.tile);
  const bool differ = uses_var(c.s.node(loops.step).extent, tile.var);
  if (!differ || !as_int(tile.extent) || tiles == 1) return;
  const bool longest_first =
      c.t.choose(t.chain.top.name + ".order", std::vector<std::string>{kLongestFirst, kByRows}) ==
      kLongestFirst;
  if (longest_first)
    c.s.annotate(loops.tile, kTileOrderKey, TileOrder{.longest_last = tiles}.text());
}

// 32-bit registers per thread: scores, weights, accumulators and others. Weights that are computed
// while others are read replace the scores one by one.
int64_t registers(const ChainTile& t, int64_t columns, int64_t element_bits) {
  const int64_t lanes = kWarpgroup / kWarpgroupRows;  // threads per row
  return (t.step + t.step * element_bits / 32 + columns) / lanes + kOwnRegisters;
}

// Registers that a thread may have, for the way of copying that leaves the fewest.
int64_t registers_for(const ChainTile& t, const GpuFacts& gpu) {
  const RoleBudget budget = role_budget(t.threads(), gpu);
  return budget.consumer_registers > 0 ? budget.consumer_registers : gpu.registers_per_thread;
}

}  // namespace

const Instruction& WgmmaChain::row(int64_t columns) const {
  return *find_instruction(fmt::format("m64n{}k16_f32_{}", columns, to_string(elem)));
}

int64_t WgmmaChain::bytes(const ChainTile& t, int64_t stages) const {
  constexpr int64_t kBarriers = 1024;  // bytes of mbarriers, with alignment
  const int64_t element = bits_of(elem) / 8;
  return (stages * t.step * (terms + chain.columns) + t.rows * terms) * element + kBarriers;
}

bool WgmmaChain::may_overlap(const ChainTile& t, const GpuFacts& gpu) const {
  constexpr int64_t kStages = 3;
  return bytes(t, kStages) <= gpu.shared_per_block;
}

std::optional<WgmmaChain> gpu_wgmma_chain_of(RuleContext& c, const SoftmaxChain& chain) {
  const BlockNode& scores = c.s.node(chain.scores);
  const std::optional<ElemType> elem = chain_operand_elem(c.s, chain);
  const bool is_f32 = store_of(scores).buffer->elem == ElemType::f32;
  if (!elem || !is_f32 || chain.columns % kWarpRows != 0) return std::nullopt;
  const Instruction* product = row_for(*elem, chain.columns, c.input.target);
  if (!product) return std::nullopt;
  WgmmaChain t{chain, *elem, 0, {}};
  t.terms = largest_extent(c.s, scores.iters.back().extent);
  t.terms = ceil_div(t.terms, product->k) * product->k;
  const GpuFacts& gpu = c.input.target.gpu;
  constexpr int64_t kSizes[][2] = {{128, 128}, {128, 176}, {192, 128}, {128, 96}, {128, 80},
                                   {128, 64},  {192, 64},  {64, 128},  {64, 64},  {64, 32}};
  for (const auto& [rows, keys] : kSizes) {
    const ChainTile tile{rows, keys, kWarpRows};
    // Tiles that are mostly padding are wasted work.
    const bool useful = (tile.rows <= 64 || tile.rows < 2 * chain.rows) &&
                        (tile.step <= 32 || tile.step < 2 * chain.keys);
    const bool fits = registers(tile, chain.columns, bits_of(*elem)) <= registers_for(tile, gpu) &&
                      t.bytes(tile, 2) <= gpu.shared_per_block &&
                      row_for(*elem, tile.step, c.input.target);
    if (useful && fits) t.tiles.push_back(tile);
  }
  if (t.tiles.empty()) return std::nullopt;
  int64_t stacks = 1;
  for (int64_t extent : analyze(c.s, chain.result).extents) stacks *= extent;
  stacks /= chain.rows * chain.columns;
  gpu_put_first(t.tiles, [&](const ChainTile& tile) {
    return stacks * ceil_div(chain.rows, tile.rows) >= gpu.sms;
  });
  return t;
}

void gpu_wgmma_chain(RuleContext& c, const WgmmaChain& t) {
  const std::string name = t.chain.top.name;
  const GpuFacts& gpu = c.input.target.gpu;
  AttentionPlan plan;
  ChainTile& tile = plan.answers.tile;
  tile = c.t.choose_among(name + ".tile", t.tiles, [](const ChainTile& option) {
    return fmt::format("{}x{}/{}", option.rows, option.step, kWarpgroupRows);
  });
  plan.scores = &t.row(tile.step);
  plan.product = &t.row(t.chain.columns);
  plan.terms = t.terms;
  plan.answers.in_registers = false;
  std::vector<std::string> ways = {kByRoles, kByThreads, kByCpAsync};
  if (!are_boxes(c, t)) ways = {kByCpAsync};
  plan.copies = c.t.choose(name + ".copies", ways);
  if (plan.copies == kByRoles && t.may_overlap(tile, gpu)) {
    plan.overlaps = c.t.choose(name + ".overlap",
                               std::vector<std::string>{kOverValues, kNothing}) == kOverValues;
  }
  std::vector<int64_t> depths = {2, 3, 4};
  if (plan.overlaps) depths.erase(depths.begin());
  if (!gpu_copies_boxes(plan.copies)) depths.push_back(1);
  std::erase_if(depths, [&](int64_t n) {
    return n > depths.front() && t.bytes(tile, n) > gpu.shared_per_block;
  });
  plan.answers.stages = c.t.choose(name + ".stages", depths);
  order_tiles(c, t, build_attention(c, t.chain, plan), tile.rows);
}

}  // namespace tilewright
