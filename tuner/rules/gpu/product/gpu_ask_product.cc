// The knobs of products with matrix instructions whose operands come from shared memory.
#include <algorithm>
#include <utility>

#include "base/ceil_div.h"
#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda/instructions/cuda_mma.h"
#include "codegen/cuda_lowering.h"
#include "kernel/instructions/tensor_sums.h"
#include "kernel/instructions/wgmma_rows.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu_siblings.h"
#include "tuner/rules/gpu/gpu_tensor_parts.h"
#include "tuner/rules/gpu/gpu_units.h"
#include "tuner/rules/gpu/product/gpu_ask.h"

namespace tilewright {
namespace {

using Staged = GpuEpilogue::Staged;

constexpr int64_t kMostWarpSums = 64 * 64;        // accumulators that a warp's registers hold
constexpr int64_t kMostWarpgroupSums = 64 * 256;  // the same for a warpgroup
constexpr int64_t kMostSwappedRows = 64;          // more rows need no padding without swapping

// Epilogue stores through shared memory: by stmatrix, as TMA tiles, or both.
constexpr const char* kByMatrices = "stmatrix";
constexpr const char* kMatricesInBoxes = "stmatrix_tensor";
// The same, a subtile after another.
constexpr const char* kSubtiles = "_subtiles";

const Expr& extent_of(const RuleContext& c, const GpuProduct& p, int iter) {
  return c.s.node(p.block).iters[static_cast<size_t>(iter)].extent;
}

// Bytes of both operands' tiles, without padding.
int64_t stage_bytes_of(const RuleContext& c, const GpuProduct& p, const TensorTileSizes& tile) {
  const int bits = bits_of(gpu_types_of(c.s, p).a);
  return (tile.m + p.roles.products() * tile.n) * tile.k * bits / 8;
}

// Knobs of a wgmma pipeline: "copies", "stages", "pending".
GpuPipeline ask_pipeline(RuleContext& c, const GpuProduct& p, const TensorTileSizes& tile,
                         int64_t a_span, std::vector<int64_t> stages, bool is_promoted,
                         bool may_ping_pong = false) {
  GpuPipeline pipeline;
  const int64_t bytes = stage_bytes_of(c, p, tile);
  pipeline.copies = gpu_choose_copies(c, p.block, p.roles, gpu_row_vectors(c, p.block, p.roles),
                                      tile.k, a_span, may_ping_pong);
  stages = gpu_copies_boxes(pipeline.copies) ? gpu_stages_of_boxes(c, bytes)
                                             : gpu_stages_that_fit(c, std::move(stages), bytes);
  pipeline.stages = c.t.choose(p.block.name + ".stages", stages);
  if (pipeline.stages >= kPendingStages && !is_promoted) {
    pipeline.pending = c.t.choose(p.block.name + ".pending", std::vector<int64_t>{1, 0});
  }
  return pipeline;
}

// Subtiles of an epilogue by TMA tiles of so many columns: an even number, so that the two arrays in
// shared memory take turns from tile to tile. Each has columns of all warpgroups. 1 if two arrays
// would hold the whole tile, or there are no such subtiles.
int64_t subtiles_of(const TensorTileSizes& tile, int64_t box_columns) {
  const int64_t count = box_columns > 0 && tile.n == tile.warp_n ? tile.n / box_columns : 1;
  return count > 2 && count % 2 == 0 ? count : 1;
}

// Whether two warpgroups may take the block's tiles in turns (ping-pong): a tile is one warpgroup's,
// and a block of a persistent grid has several.
bool may_ping_pong(const RuleContext& c, const GpuProduct& p, const TensorTileSizes& tile) {
  const ProductSizes s = gpu_sizes_of(c, p);
  return tile.threads() == kWarpgroup && !p.roles.is_part && !s.has_dynamic_rows &&
         s.tiles(tile) >= 2 * c.input.target.gpu.sms;
}

// Bytes of a subtile epilogue's two arrays, or of the staged tile, of elements of so many bits.
int64_t result_bytes(const TensorTileSizes& tile, int64_t subtiles, int bits) {
  return tile.m * tile.n * bits / 8 * (subtiles > 1 ? 2 : 1) / subtiles;
}

// Options of the knob "stores" of a wgmma product.
std::vector<std::string> wgmma_stores(const RuleContext& c, const GpuProduct& p,
                                      const GpuProductPlan& plan, int64_t box_columns,
                                      int64_t stage_bytes) {
  const Block& last = gpu_last_product(p.block, p.roles);
  const TensorTileSizes& tile = plan.tile;
  std::vector<std::string> ways = gpu_ways_to_store(c, last, tile, extent_of(c, p, p.roles.i),
                                                    extent_of(c, p, p.roles.j), kWarpRows);
  // A tile that only fills up a cluster lies beyond the result and has no whole matrices.
  const ProductSizes s = gpu_sizes_of(c, p);
  const bool is_filled = ceil_div(s.i, tile.m) % plan.cluster.rows == 0 &&
                         ceil_div(s.j, tile.n) % plan.cluster.columns == 0;
  if (!is_filled) std::erase(ways, std::string(kByMatrices));
  std::vector<std::string> in_boxes;
  if (gpu_copies_boxes(plan.pipeline.copies) && box_columns > 0) {
    const bool by_matrices = std::find(ways.begin(), ways.end(), kByMatrices) != ways.end();
    in_boxes.emplace_back(kInBoxes);
    if (by_matrices) in_boxes.emplace_back(kMatricesInBoxes);
  }
  ways.insert(ways.end(), in_boxes.begin(), in_boxes.end());
  if (!p.roles.result_is_matrix) return {"direct"};
  auto fits = [&](int64_t subtiles) {
    const int64_t result = teams_of_consumers(plan.pipeline.copies) *
                           result_bytes(tile, subtiles, bits_of(gpu_result_elem(c, last)));
    return plan.pipeline.stages * stage_bytes + result <= c.input.target.gpu.shared_per_block;
  };
  if (!fits(1)) ways = {"direct"};
  const int64_t subtiles = subtiles_of(tile, box_columns);
  if (subtiles == 1 || !fits(subtiles)) return ways;
  for (const std::string& way : in_boxes) ways.push_back(way + kSubtiles);
  return ways;
}

GpuEpilogue epilogue_of(std::string way, const TensorTileSizes& tile, int64_t box_columns = 0) {
  GpuEpilogue e;
  if (way != "direct") e.staged = Staged::Results;
  if (way.ends_with(kSubtiles)) {
    e.subtiles = subtiles_of(tile, box_columns);
    way.resize(way.size() - std::string_view(kSubtiles).size());
  }
  e.by_matrices = way == kByMatrices || way == kMatricesInBoxes;
  if (way == kInBoxes || way == kMatricesInBoxes) e.box_columns = box_columns;
  return e;
}

// Tiles of swapped operands with `k` of k, and with all rows or with half of them; a warpgroup per 64 columns. The
// first option is the widest tile that gives each SM a block.
std::vector<TensorTileSizes> swapped_tiles(const RuleContext& c, const GpuProduct& p, int64_t k) {
  const ProductSizes s = gpu_sizes_of(c, p);
  const ProductTypes types = gpu_types_of(c.s, p);
  const int64_t all = std::max<int64_t>(8, round_up(s.i, 8));
  std::vector<TensorTileSizes> tiles;
  for (int64_t rows : {all, ceil_div(all, 16) * 8}) {
    if (!tiles.empty() && rows == tiles.front().m) break;
    if (!gpu_find_row(wgmma_rows(), types, c.input.target, rows)) continue;
    for (int64_t columns : {256, 128, 64}) {
      if (columns == kWarpgroupRows || columns < 2 * s.j) {
        tiles.push_back({rows, columns, k, rows, kWeightRows});
      }
    }
  }
  put_widest_first(tiles,
                   [&](const TensorTileSizes& t) { return s.tiles(t) >= c.input.target.gpu.sms; });
  return tiles;
}

// Shared memory of a block: the pipeline's stages, of that many bytes each, and the staged results of so many
// products.
int64_t shared_bytes_of(const GpuProductPlan& plan, int64_t stage, int64_t products = 1) {
  const GpuEpilogue& e = plan.epilogue;
  int64_t staged = e.is_staged() ? products * gpu_staged_bytes(plan.tile) : 0;
  if (e.subtiles > 1) staged = staged * 2 / e.subtiles;
  staged *= teams_of_consumers(plan.pipeline.copies);
  return plan.pipeline.stages * stage + staged;
}

}  // namespace

ProductSizes gpu_sizes_of(const RuleContext& c, const GpuProduct& p) {
  auto most = [&](int iter) { return largest_extent(c.s, extent_of(c, p, iter)); };
  ProductSizes s{1, most(p.roles.i), most(p.roles.j), most(p.roles.k)};
  for (int b : p.roles.batch) s.batch *= most(b);
  s.has_dynamic_rows = !as_int(extent_of(c, p, p.roles.i));
  return s;
}

int64_t ProductSizes::tiles(const TensorTileSizes& tile) const {
  return batch * ceil_div(i, tile.m) * ceil_div(j, tile.n);
}

std::vector<int64_t> gpu_stages_that_fit(const RuleContext& c, std::vector<int64_t> stages,
                                         int64_t bytes) {
  std::erase_if(
      stages, [&](int64_t n) { return n > 1 && n * bytes > c.input.target.gpu.shared_per_block; });
  return stages;
}

GpuGrid gpu_ask_grid(RuleContext& c, const GpuProduct& p, const GpuProductPlan& plan,
                     const GridWork& work) {
  const std::string& copies = plan.pipeline.copies;
  const int64_t threads = plan.tile.threads();
  GpuGridWork of_block{work.tiles, ceil_div(work.k, plan.tile.k), work.shared_bytes,
                       gpu_threads_with_copies(c, copies, threads)};
  of_block.must_persist = teams_of_consumers(copies) > 1;
  of_block.may_share = work.may_share && p.roles.siblings.empty() && !plan.order.is_curve() &&
                       !of_block.must_persist;
  of_block.cluster = plan.cluster.blocks();
  if (plan.row->is_wgmma()) {
    of_block.registers = gpu_registers_with_copies(c, copies, threads, work.sums);
  }
  return gpu_choose_grid(c, p.block.name, of_block);
}

int64_t gpu_staged_bytes(const TensorTileSizes& tile) {
  constexpr int64_t kElement = 4, kPadding = 16;
  return tile.m * (tile.n * kElement + kPadding);
}

bool gpu_promotes(RuleContext& c, const Block& block, ElemType operand, int64_t sums) {
  if (!is_float(operand) || bits_of(operand) != 8) return false;
  std::vector<int64_t> answers = {kPromotedTerms};
  if (sums <= kPromotedTerms) answers.push_back(0);
  return c.t.choose(block.name + ".promote", answers) > 0;
}

ProductTypes gpu_types_of(const Schedule& s, const GpuProduct& p) {
  const BlockNode& n = s.node(p.block);
  return {read_elem(n, p.roles.a), read_elem(n, p.roles.b), store_of(n).buffer->elem};
}

const Instruction* gpu_find_row(const std::vector<Instruction>& table, const ProductTypes& types,
                                const Target& target, int64_t columns) {
  return first_row(table, target.gpu.compute_capability, [&](const Instruction& row) {
    return row.takes(types) && (columns == 0 || row.n == columns) &&
           (row.is_wgmma() || is_printed(row));
  });
}

std::string gpu_way_of(const Instruction& row, const std::string& prefix) {
  const std::string name(row.name);
  return prefix + name.substr(name.find('_', name.find('m')));
}

std::string gpu_wgmma_way(const RuleContext& c, const GpuProduct& p) {
  constexpr int64_t kFew = 32;  // rows or columns
  constexpr int64_t kAnyColumns = 64;
  const ProductSizes s = gpu_sizes_of(c, p);
  // Packed weights have layouts of their own.
  const bool is_plain = p.roles.weight == GpuRoles::WeightLayout::AsItIs;
  if (!is_plain || s.i < kFew || s.j < kFew) return "";
  const Instruction* row =
      gpu_find_row(wgmma_rows(), gpu_types_of(c.s, p), c.input.target, kAnyColumns);
  return row ? gpu_way_of(*row, "wgmma") : "";
}

std::string gpu_swapped_wgmma_way(const RuleContext& c, const GpuProduct& p) {
  const GpuRoles& r = p.roles;
  const BlockNode& n = c.s.node(p.block);
  const ProductSizes s = gpu_sizes_of(c, p);
  const bool is_plain = r.weight == GpuRoles::WeightLayout::AsItIs && r.result_is_box &&
                        plain_iterator(n, indices_of(n, r.a).back()) == r.k;
  if (!is_plain || s.i > kMostSwappedRows || s.j < kWarpgroupRows) return "";
  const Instruction* row =
      gpu_find_row(wgmma_rows(), gpu_types_of(c.s, p), c.input.target, kMostSwappedRows);
  return row ? gpu_way_of(*row, "wgmma") + "_turned" : "";
}

GpuProductPlan gpu_ask_mma(RuleContext& c, const GpuProduct& p, const Instruction& row) {
  const GpuRoles& r = p.roles;
  const std::string& name = p.block.name;
  const ProductSizes s = gpu_sizes_of(c, p);
  GpuProductPlan plan{&row};
  std::vector<TensorTileSizes> tiles =
      tensor_tiles_for(s.i, s.j, s.k, s.batch, row, c.input.target.gpu);
  std::erase_if(tiles, [&](const TensorTileSizes& t) {
    return r.products() * t.warp_m * t.warp_n > kMostWarpSums;
  });
  const TensorTileSizes tile = plan.tile = c.t.choose_among(name + ".tile", tiles);
  plan.chunk = tile.k;
  const int64_t bytes = tile.bytes(row, r.products());
  plan.pipeline.stages =
      c.t.choose(name + ".stages", gpu_stages_that_fit(c, {3, 2, 4, 5, 1}, bytes));
  plan.is_swizzled =
      c.t.choose(name + ".rows", std::vector<std::string>{kSwizzled, "padded"}) == kSwizzled;
  // The results of im2col are not a matrix in memory.
  if (!r.is_gathered()) {
    const std::vector<std::string> ways = gpu_ways_to_store(
        c, gpu_last_product(p.block, r), tile, extent_of(c, p, r.i), extent_of(c, p, r.j), row.m);
    plan.epilogue = epilogue_of(c.t.choose(name + ".stores", ways), tile);
  }
  if (!s.has_dynamic_rows) {  // otherwise there is no fixed number of tile rows
    plan.order.group =
        c.t.choose(name + ".group", tile_groups_for(ceil_div(s.i, tile.m), ceil_div(s.j, tile.n)));
  }
  plan.grid = gpu_ask_grid(c, p, plan, {s.tiles(tile), s.k, shared_bytes_of(plan, bytes)});
  return plan;
}

GpuProductPlan gpu_ask_wgmma(RuleContext& c, const GpuProduct& p) {
  const GpuRoles& r = p.roles;
  const std::string& name = p.block.name;
  const ProductSizes s = gpu_sizes_of(c, p);
  const ProductTypes types = gpu_types_of(c.s, p);
  GpuProductPlan plan;
  plan.is_swizzled = true;
  plan.is_promoted = gpu_promotes(c, p.block, types.a, s.k);
  std::vector<TensorTileSizes> tiles =
      wgmma_tiles_for(s.i, s.j, s.batch, bits_of(types.a), c.input.target.gpu);
  const int64_t sets = r.products() * (plan.is_promoted ? 2 : 1);
  std::erase_if(tiles, [&](const TensorTileSizes& t) {
    return sets * t.warp_m * t.warp_n > kMostWarpgroupSums;
  });
  const TensorTileSizes tile = plan.tile = c.t.choose_among(name + ".tile", tiles);
  plan.row = gpu_find_row(wgmma_rows(), types, c.input.target, tile.warp_n);
  const int64_t span = gpu_span_of_copies(c, p.block, r, tile.k);
  plan.pipeline =
      ask_pipeline(c, p, tile, span, {4, 3, 2, 5, 1}, plan.is_promoted, may_ping_pong(c, p, tile));
  const std::string& copies = plan.pipeline.copies;
  plan.chunk = gpu_copies_boxes(copies) ? span : tile.k;
  plan.cluster = gpu_choose_cluster(c, name, copies, ceil_div(s.i, tile.m), ceil_div(s.j, tile.n));
  const int64_t rows = ceil_div(s.i, tile.m * plan.cluster.rows),
                columns = ceil_div(s.j, tile.n * plan.cluster.columns);
  const int64_t bytes = stage_bytes_of(c, p, tile);
  const int64_t box = gpu_box_columns(c, gpu_last_product(p.block, r), tile, extent_of(c, p, r.j));
  // Split-K parts store their accumulators directly.
  if (!r.is_part) {
    plan.epilogue =
        epilogue_of(c.t.choose(name + ".stores", wgmma_stores(c, p, plan, box, bytes)), tile, box);
  }
  if (!s.has_dynamic_rows) {
    plan.order = gpu_choose_tile_order(c, name, plan.cluster, rows, columns);
  }
  plan.grid =
      gpu_ask_grid(c, p, plan,
                   {s.batch * rows * columns * plan.cluster.blocks(), s.k,
                    shared_bytes_of(plan, bytes), sets * tile.warp_m * tile.warp_n / kWarpgroup});
  return plan;
}

GpuProductPlan gpu_ask_swapped_wgmma(RuleContext& c, const GpuProduct& p) {
  const GpuRoles& r = p.roles;
  const std::string& name = p.block.name;
  const ProductSizes s = gpu_sizes_of(c, p);
  const ProductTypes types = gpu_types_of(c.s, p);
  GpuProductPlan plan;
  plan.is_swapped = plan.is_swizzled = true;
  plan.is_promoted = gpu_promotes(c, p.block, types.a, s.k);
  plan.chunk = kSpanBytes * 8 / bits_of(types.a);  // a tile's k: one swizzle atom
  const TensorTileSizes tile = plan.tile =
      c.t.choose_among(name + ".tile", swapped_tiles(c, p, plan.chunk), swapped_tile_name);
  plan.row = gpu_find_row(wgmma_rows(), types, c.input.target, tile.m);
  plan.pipeline = ask_pipeline(c, p, tile, tile.k, {4, 6, 3, 2, 1}, plan.is_promoted);
  std::vector<std::string> ways = {"shared", "direct"};
  // With dynamic rows, the last tile may have fewer rows than threads copy together. Rows shorter
  // than a tile cannot be divided evenly.
  if (s.has_dynamic_rows || s.j < tile.n) ways = {"direct"};
  if (c.t.choose(name + ".store", ways) == "shared") plan.epilogue.staged = Staged::Sums;
  const int64_t bytes = stage_bytes_of(c, p, tile);
  plan.grid = gpu_ask_grid(c, p, plan,
                           {s.tiles(tile), s.k, shared_bytes_of(plan, bytes, r.products()),
                            (plan.is_promoted ? 2 : 1) * r.products() * tile.m / 2});
  return plan;
}

}  // namespace tilewright
