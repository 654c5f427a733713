#include "tuner/rules/gpu/product/gpu_wgmma.h"

#include <algorithm>
#include <utility>

#include "base/ceil_div.h"
#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda/instructions/cuda_mma.h"
#include "codegen/cuda/instructions/cuda_stmatrix.h"
#include "codegen/cuda/instructions/cuda_wgmma_nest.h"
#include "codegen/cuda_lowering.h"
#include "kernel/instructions/tensor_sums.h"
#include "kernel/instructions/wgmma_rows.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/copy/gpu_tensor_copies.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_siblings.h"
#include "tuner/rules/gpu/gpu_tensor_parts.h"
#include "tuner/rules/gpu/gpu_tiles.h"
#include "tuner/rules/gpu/gpu_units.h"
#include "tuner/rules/gpu/grid/gpu_cluster.h"
#include "tuner/rules/gpu/grid/gpu_grid.h"
#include "tuner/rules/gpu/grid/gpu_tile_order.h"

namespace tilewright {
namespace {

// Epilogue stores through shared memory: by stmatrix, as TMA tiles, or both.
constexpr const char* kByMatrices = "stmatrix";
constexpr const char* kMatricesInBoxes = "stmatrix_tensor";
constexpr int64_t kMostWarpgroupSums = 64 * 256;  // accumulators that a warpgroup's registers hold

// The row of `n` columns for the block's types; null if the target has none. tf32 rows do not count
// as f32.
const Instruction* row_for(const RuleContext& c, const Block& block, const GpuRoles& r, int64_t n) {
  const BlockNode& node = c.s.node(block);
  const ElemType sums = store_of(node).buffer->elem, a = read_elem(node, r.a),
                 b = read_elem(node, r.b);
  for (const Instruction& row : wgmma_rows()) {
    const bool fits =
        row.operand == a && row.b_operand() == b && row.acc == sums && !row.tf32 && row.n == n;
    if (fits && row.runs_on(c.input.target.gpu.compute_capability)) return &row;
  }
  return nullptr;
}

class WgmmaTiler {
 public:
  WgmmaTiler(RuleContext& c, Block block, GpuRoles roles)
      : c_(c), block_(std::move(block)), r_(std::move(roles)),
        bits_(bits_of(read_elem(node(), r_.a))) {}

  void run() {
    rows_ = gpu_row_vectors(c_, block_, r_);
    choose();
    gpu_stage_operands(c_, block_, r_, tile_.m * cluster_.rows, tile_.n * cluster_.columns,
                       tile_.k);
    if (gpu_copies_boxes(copies_) && span_ < tile_.k) gpu_lay_terms_in_spans(c_, r_.a, span_);
    for (const std::string& operand : {r_.a, r_.b}) {
      gpu_lay_along_terms(c_, block_, operand, r_.k);
      gpu_lay_in_spans(c_, block_, operand, operand == r_.a ? tile_.m : tile_.n, r_.k);
    }
    for (const GpuSibling& s : r_.siblings) {
      gpu_lay_along_terms(c_, s.block, s.b, r_.k);
      gpu_lay_in_spans(c_, s.block, s.b, tile_.n, r_.k);
    }
    last_ = gpu_place_results(c_, block_, r_);
    const std::vector<Block> products = gpu_products(block_, r_);
    std::vector<GpuProductLoops> loops;
    for (const Block& p : products) {
      gpu_lay_out_sums(c_, p, kWarpRows);
      loops.push_back(tile_loops(p));
    }
    gpu_join_loops(c_, r_, loops);
    grid_ = loops[0].grid;
    k_outer_ = loops[0].k_outer;
    c_.s.compute_at(gpu_writer(c_.s, r_.a), k_outer_);
    c_.s.compute_at(gpu_writer(c_.s, r_.b), k_outer_);
    std::vector<Block> inits;
    for (const Block& p : products) inits.push_back(c_.s.decompose_reduction(p, k_outer_));
    finish_result();
    copy_operand(r_.a, rows_.first);
    copy_operand(r_.b, rows_.second);
    for (const GpuSibling& s : r_.siblings) copy_operand(s.b, rows_.second);
    for (const Block& init : inits) finish_sums(init, 1);
    for (size_t p = 0; p < products.size(); ++p) {
      if (promotes_) promote_sums(products[p], loops[p].warp);
      c_.s.annotate(loops[p].marked, kMmaKey, std::string(row_->name));
      c_.s.bind(loops[p].warp, ForKind::Warp);
    }
    c_.s.annotate(grid_, kSharedRowsKey, std::string(kSwizzled));
    if (stages_ > 1) c_.s.annotate(k_outer_, kPipelineStagesKey, stages_);
    if (pending_ > 0) c_.s.annotate(k_outer_, kWgmmaPendingKey, pending_);
    if (gpu_copies_boxes(copies_)) c_.s.annotate(k_outer_, kCopiesKey, copies_);
    gpu_mark_cluster(c_, cluster_, grid_);
    gpu_mark_tile_order(c_, order_, grid_);
    gpu_mark_grid(c_, blocks_, grid_, k_outer_);
  }

 private:
  const BlockNode& node() { return c_.s.node(block_); }
  const Expr& extent(int iter) { return node().iters[static_cast<size_t>(iter)].extent; }
  int64_t most(int iter) { return largest_extent(c_.s, extent(iter)); }

  void choose() {
    int64_t batch = 1;
    for (int b : r_.batch) batch *= most(b);
    promotes_ = gpu_promotes(c_, block_, read_elem(node(), r_.a), most(r_.k));
    std::vector<TensorTileSizes> tiles =
        wgmma_tiles_for(most(r_.i), most(r_.j), batch, bits_, c_.input.target.gpu);
    const int64_t sets = r_.products() * (promotes_ ? 2 : 1);
    std::erase_if(tiles, [&](const TensorTileSizes& t) {
      return sets * t.warp_m * t.warp_n > kMostWarpgroupSums;
    });
    tile_ = c_.t.choose_among(block_.name + ".tile", tiles);
    row_ = row_for(c_, block_, r_, tile_.warp_n);
    span_ = gpu_span_of_copies(c_, block_, r_, tile_.k);
    copies_ = gpu_choose_copies(c_, block_, r_, rows_, tile_.k, span_);
    stages_ = c_.t.choose(block_.name + ".stages", gpu_copies_boxes(copies_)
                                                       ? gpu_stages_of_boxes(c_, stage_bytes())
                                                       : stages_that_fit());
    if (stages_ >= kPendingStages && !promotes_) {
      pending_ = c_.t.choose(block_.name + ".pending", std::vector<int64_t>{1, 0});
    }
    auto tiles_of = [&](int iter, int64_t size) { return ceil_div(most(iter), size); };
    cluster_ = gpu_choose_cluster(c_, block_.name, copies_, tiles_of(r_.i, tile_.m),
                                  tiles_of(r_.j, tile_.n));
    std::vector<std::string> ways = gpu_ways_to_store(c_, gpu_last_product(block_, r_), tile_,
                                                      extent(r_.i), extent(r_.j), kWarpRows);
    const int64_t rows = tiles_of(r_.i, tile_.m * cluster_.rows);
    const int64_t columns = tiles_of(r_.j, tile_.n * cluster_.columns);
    // A tile that only fills up a cluster lies beyond the result and has no whole matrices.
    const bool is_filled = rows * cluster_.rows == tiles_of(r_.i, tile_.m) &&
                           columns * cluster_.columns == tiles_of(r_.j, tile_.n);
    if (!is_filled) std::erase(ways, std::string(kByMatrices));
    box_columns_ = gpu_box_columns(c_, gpu_last_product(block_, r_), tile_, extent(r_.j));
    if (gpu_copies_boxes(copies_) && box_columns_ > 0) {
      const bool by_matrices = std::find(ways.begin(), ways.end(), kByMatrices) != ways.end();
      ways.emplace_back(kInBoxes);
      if (by_matrices) ways.emplace_back(kMatricesInBoxes);
    }
    const int64_t result =
        tile_.m * tile_.n * bits_of(gpu_result_elem(c_, gpu_last_product(block_, r_))) / 8;
    const bool is_full = stages_ * stage_bytes() + result > c_.input.target.gpu.shared_per_block;
    if (is_full || !r_.result_is_matrix) ways = {"direct"};
    // Split-K parts store their accumulators directly.
    if (!r_.is_part) stores_ = c_.t.choose(block_.name + ".stores", ways);
    if (as_int(extent(r_.i))) {
      order_ = gpu_choose_tile_order(c_, block_.name, cluster_, rows, columns);
    }
    const int64_t terms = ceil_div(most(r_.k), tile_.k);
    const int64_t threads = gpu_threads_with_copies(c_, copies_, tile_.threads());
    const int64_t registers = gpu_registers_with_copies(
        c_, copies_, tile_.threads(), sets * tile_.warp_m * tile_.warp_n / kWarpgroup);
    blocks_ =
        gpu_choose_grid(c_, block_.name,
                        {batch * rows * columns * cluster_.blocks(), terms, shared_bytes(), threads,
                         !order_.is_curve() && r_.siblings.empty(), cluster_.blocks(), registers});
  }

  int64_t stage_bytes() const { return (tile_.m + r_.products() * tile_.n) * tile_.k * bits_ / 8; }

  int64_t shared_bytes() const {
    constexpr int64_t kResult = 4, kPadding = 16;  // bytes per element at most, and per row
    return stages_ * stage_bytes() +
           (is_through_shared() ? tile_.m * (tile_.n * kResult + kPadding) : 0);
  }

  bool is_through_shared() const { return stores_ != "direct"; }

  void copy_operand(const std::string& buffer, int64_t vector) {
    if (gpu_copies_boxes(copies_)) return gpu_copy_boxes(c_, buffer);
    gpu_share_copy(c_, buffer, tile_.threads(), vector);
  }

  std::vector<int64_t> stages_that_fit() const {
    std::vector<int64_t> stages = {4, 3, 2, 5, 1};
    std::erase_if(stages, [&](int64_t n) {
      return n > 1 && n * stage_bytes() > c_.input.target.gpu.shared_per_block;
    });
    return stages;
  }

  // Loops b, i, j, k become: grid, k_outer (the mainloop), warp, k, fragments of 64 rows, and a
  // warp's rows, columns, k. Each of four warps has 16 of the 64 rows.
  GpuProductLoops tile_loops(const Block& product) {
    constexpr int64_t kWarps = kWarpgroupRows / kWarpRows;
    auto loop_of = [&](int iter) { return gpu_loop_of(c_.s, product, iter); };
    std::vector<Loop> grid;
    for (int b : r_.batch) grid.push_back(loop_of(b));
    std::vector<Loop> i =
        c_.s.split(loop_of(r_.i),
                   {-1, tile_.m / tile_.warp_m, tile_.warp_m / kWarpgroupRows, kWarps, kWarpRows});
    std::vector<Loop> j = c_.s.split(loop_of(r_.j), {-1, tile_.n / tile_.warp_n, tile_.warp_n});
    std::vector<Loop> k = terms_of(loop_of(r_.k));
    std::vector<Loop> rows = {i[0]}, columns = {j[0]}, cluster;
    for (std::vector<Loop>* along : {&rows, &columns}) {
      const int64_t tiles = along == &rows ? cluster_.rows : cluster_.columns;
      if (tiles == 1) continue;
      const std::vector<Loop> parts = c_.s.split(along->front(), {-1, tiles});
      *along = {parts[0]};
      cluster = {parts[1]};
    }
    if (order_.group > 1) rows = c_.s.split(rows[0], {-1, order_.group});
    grid.push_back(rows[0]);
    grid.push_back(columns[0]);
    if (order_.group > 1) grid.push_back(rows[1]);
    grid.insert(grid.end(), cluster.begin(), cluster.end());
    std::vector<Loop> order = grid;
    order.insert(order.end(), {k[0], i[1], j[1], i[3]});
    order.insert(order.end(), k.begin() + 1, k.end() - 1);
    order.insert(order.end(), {i[2], i[4], j[2], k.back()});
    c_.s.reorder(order);
    const Loop tiles_loop = gpu_fused(c_, grid);
    return {tiles_loop, k[0], k[1], c_.s.fuse({i[1], j[1], i[3]}), k[1]};
  }

  // Splits k into tiles, instructions, and the k of one instruction. Swizzle atoms come between
  // them if there are several, with several instructions each.
  std::vector<Loop> terms_of(const Loop& loop) {
    const int64_t steps = tile_.k / row_->k, in_span = span_ / row_->k;
    const bool has_spans = gpu_copies_boxes(copies_) && in_span > 1 && in_span < steps;
    if (!has_spans) return c_.s.split(loop, {-1, steps, row_->k});
    return c_.s.split(loop, {-1, steps / in_span, in_span, row_->k});
  }

  // Binds the loops of a block over all accumulators, under its first `around` loops.
  void finish_sums(const Block& block, size_t around) {
    std::vector<Loop> loops = c_.s.loops(block);
    std::vector<Loop> j = c_.s.split(loops.back(), {-1, 8});
    std::vector<Loop> fragments(loops.begin() + static_cast<long>(around) + 1, loops.end() - 2);
    fragments.push_back(j[0]);
    gpu_bind_lanes(c_, accumulators(kWarpRows), loops[around], fragments, loops[loops.size() - 2],
                   j[1]);
  }

  // Accumulates each tile on its own, then adds in f32: tensor cores add with fewer bits.
  void promote_sums(const Block& product, const Loop& warp) {
    const ElemType sums = c_.s.output(product)->elem;
    std::vector<Block> made = c_.s.factor_scale(product, warp, sums);
    c_.s.set_scope(c_.s.output(made[0])->name, Scope::Register);
    for (const Block& b : {made[1], product}) finish_sums(b, 2);
  }

  void finish_result() {
    Block copy;
    if (is_through_shared()) {
      copy = c_.s.cache_write(last_, c_.s.output(last_)->name, Scope::Shared);
      if (!r_.result_is_box) gpu_number_rows(c_, last_, copy);
    }
    const bool in_boxes = stores_ == kInBoxes || stores_ == kMatricesInBoxes;
    if (in_boxes) gpu_lay_in_boxes(c_, last_, box_columns_);
    c_.s.reverse_compute_at(last_, grid_);
    if (is_through_shared()) c_.s.reverse_compute_at(copy, grid_);
    // Bound now, while the program still shows what is private to a block.
    c_.s.bind(grid_, ForKind::BlockX);
    std::vector<Loop> loops = c_.s.loops(last_);
    std::vector<Loop> i =
        c_.s.split(loops[loops.size() - 2], {tile_.m / tile_.warp_m, tile_.warp_m / kWarpgroupRows,
                                             kWarpgroupRows / kWarpRows, kWarpRows});
    std::vector<Loop> j = c_.s.split(loops.back(), {tile_.n / tile_.warp_n, tile_.warp_n / 8, 8});
    c_.s.reorder({i[0], j[0], i[2], i[1], j[1], i[3], j[2]});
    std::vector<Loop> fragments = {i[1], j[1]};
    if (stores_ == kByMatrices ||
        stores_ == kMatricesInBoxes) {  // two adjacent fragments: four matrices
      std::vector<Loop> pairs = c_.s.split(j[1], {-1, 2});
      fragments = {i[1], pairs[0], pairs[1]};
      c_.s.annotate(pairs[1], kStmatrixKey, int64_t{1});
    }
    gpu_bind_lanes(c_, accumulators(kWarpRows), c_.s.fuse({i[0], j[0], i[2]}), fragments, i[3],
                   j[2]);
    if (in_boxes) {
      gpu_store_boxes(c_, copy, box_columns_);
    } else if (is_through_shared()) {
      gpu_store_rows(c_, copy, tile_);
    }
  }

  RuleContext& c_;
  Block block_, last_;
  GpuRoles r_;
  int bits_;
  const Instruction* row_ = nullptr;
  TensorTileSizes tile_{};
  int64_t stages_ = 1;
  int64_t span_ = 0;         // k elements of the first operand per copy
  int64_t box_columns_ = 0;  // columns of a TMA tile of the result
  int64_t pending_ = 0;      // wgmma groups in flight after an iteration
  bool promotes_ = false;    // f32 promotion of 8-bit float accumulators, per tile
  GpuCluster cluster_;
  GpuTileOrder order_;
  GpuGrid blocks_;
  std::string stores_ = "direct", copies_;
  std::pair<int64_t, int64_t> rows_;  // vector widths of accesses to A and to B
  Loop grid_, k_outer_;
};

}  // namespace

std::string gpu_wgmma_way(RuleContext& c, const Block& block, const GpuRoles& roles) {
  constexpr int64_t kFew = 32;  // rows or columns
  constexpr int kAnyColumns = 64;
  const BlockNode& n = c.s.node(block);
  auto most = [&](int iter) {
    return largest_extent(c.s, n.iters[static_cast<size_t>(iter)].extent);
  };
  // Packed weights have layouts of their own.
  const bool is_plain = roles.weight == GpuRoles::WeightLayout::AsItIs;
  if (!is_plain || most(roles.i) < kFew || most(roles.j) < kFew) return "";
  const Instruction* row = row_for(c, block, roles, kAnyColumns);
  if (!row) return "";
  const std::string name(row->name);
  return "wgmma" + name.substr(name.find('_'));
}

const Instruction* gpu_wgmma_row(const RuleContext& c, const Block& block, const GpuRoles& roles,
                                 int64_t n) {
  return row_for(c, block, roles, n);
}

bool gpu_promotes(RuleContext& c, const Block& block, ElemType operand, int64_t sums) {
  if (!is_float(operand) || bits_of(operand) != 8) return false;
  std::vector<int64_t> answers = {kPromotedTerms};
  if (sums <= kPromotedTerms) answers.push_back(0);
  return c.t.choose(block.name + ".promote", answers) > 0;
}

void gpu_wgmma_contraction(RuleContext& c, const Block& block, const GpuRoles& roles) {
  WgmmaTiler(c, block, roles).run();
}

}  // namespace tilewright
