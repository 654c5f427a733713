#include "tuner/rules/gpu/product/gpu_wgmma_turned.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/ceil_div.h"
#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda/instructions/cuda_mma.h"
#include "codegen/cuda/instructions/cuda_wgmma_nest.h"
#include "codegen/cuda_lowering.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/copy/gpu_tensor_copies.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_packed_parts.h"
#include "tuner/rules/gpu/gpu_siblings.h"
#include "tuner/rules/gpu/gpu_tensor_parts.h"
#include "tuner/rules/gpu/gpu_tiles.h"
#include "tuner/rules/gpu/gpu_units.h"
#include "tuner/rules/gpu/grid/gpu_grid.h"
#include "tuner/rules/gpu/product/gpu_wgmma.h"

namespace tilewright {
namespace {

constexpr int64_t kMostSwappedRows = 64;  // more rows need no padding without swapping

class WgmmaTurnedTiler {
 public:
  WgmmaTurnedTiler(RuleContext& c, Block block, GpuRoles roles)
      : c_(c), block_(std::move(block)), r_(std::move(roles)),
        bits_(bits_of(read_elem(node(), r_.a))), k_(kSpanBytes * 8 / bits_) {}

  void run() {
    rows_ = gpu_row_vectors(c_, block_, r_);
    choose();
    gpu_stage_operands(c_, block_, r_, tile_.m, tile_.n, k_);
    std::vector<GpuSibling> weights = r_.siblings;
    weights.insert(weights.begin(), {block_, r_.b});
    for (const GpuSibling& w : weights) {
      gpu_lay_along_terms(c_, w.block, w.b, r_.k);
      gpu_lay_in_spans(c_, w.block, w.b, tile_.n, r_.k);
    }
    last_ = gpu_place_results(c_, block_, r_);
    std::vector<GpuProductLoops> loops;
    for (const GpuSibling& w : weights) {
      const std::string sums = c_.s.output(w.block)->name;
      if (through_shared_) staged_.push_back(c_.s.cache_read(last_, sums, Scope::Shared));
      gpu_lay_out_sums(c_, w.block, kWeightRows, true);
      loops.push_back(tile_loops(w.block));
    }
    gpu_join_loops(c_, r_, loops);
    grid_ = loops[0].grid;
    k_outer_ = loops[0].k_outer;
    c_.s.compute_at(gpu_writer(c_.s, r_.a), k_outer_);
    c_.s.compute_at(gpu_writer(c_.s, r_.b), k_outer_);
    std::vector<Block> inits;
    for (const GpuSibling& w : weights) {
      inits.push_back(c_.s.decompose_reduction(w.block, k_outer_));
    }
    finish_result();
    copy_operand(r_.a, rows_.first);
    for (const GpuSibling& w : weights) copy_operand(w.b, rows_.second);
    for (const Block& init : inits) gpu_bind_packed_sums(c_, init, 1);
    const ElemType sums = c_.s.output(block_)->elem;
    for (size_t p = 0; p < weights.size(); ++p) {
      // Accumulates each tile on its own, then adds in f32: tensor cores add with fewer bits.
      if (promotes_) gpu_sum_apart(c_, weights[p].block, loops[p].warp, sums);
      c_.s.annotate(loops[p].marked, kMmaKey, std::string(row_->name));
      c_.s.bind(loops[p].warp, ForKind::Warp);
    }
    mark();
  }

 private:
  const BlockNode& node() { return c_.s.node(block_); }
  const Expr& extent(int iter) { return node().iters[static_cast<size_t>(iter)].extent; }
  int64_t most(int iter) { return largest_extent(c_.s, extent(iter)); }

  void choose() {
    promotes_ = gpu_promotes(c_, block_, read_elem(node(), r_.a), most(r_.k));
    int64_t batch = 1;
    for (int b : r_.batch) batch *= most(b);
    const std::vector<PackedTile> tiles = tiles_for(batch);
    tile_ = c_.t.choose_among(block_.name + ".tile", tiles);
    row_ = gpu_wgmma_row(c_, block_, r_, tile_.m);
    copies_ = gpu_choose_copies(c_, block_, r_, rows_, k_, k_);
    stages_ = c_.t.choose(block_.name + ".stages", depths());
    if (stages_ >= kPendingStages && !promotes_) {
      pending_ = c_.t.choose(block_.name + ".pending", std::vector<int64_t>{1, 0});
    }
    std::vector<std::string> ways = {"shared", "direct"};
    // With dynamic rows, the last tile may have fewer rows than threads copy together. Rows shorter
    // than a tile cannot be divided evenly.
    if (!as_int(extent(r_.i)) || most(r_.j) < tile_.n) ways = {"direct"};
    through_shared_ = c_.t.choose(block_.name + ".store", ways) == "shared";
    const int64_t blocks = batch * ceil_div(most(r_.i), tile_.m) * ceil_div(most(r_.j), tile_.n);
    constexpr int64_t kSum = 4, kPadding = 16;  // bytes per accumulator, and per row
    const int64_t shared =
        stages_ * stage_bytes() +
        (through_shared_ ? r_.products() * tile_.m * (tile_.n * kSum + kPadding) : 0);
    const int64_t sums = (promotes_ ? 2 : 1) * r_.products() * tile_.m / 2;
    blocks_ =
        gpu_choose_grid(c_, block_.name,
                        {blocks, ceil_div(most(r_.k), k_), shared,
                         gpu_threads_with_copies(c_, copies_, tile_.threads()), r_.siblings.empty(),
                         1, gpu_registers_with_copies(c_, copies_, tile_.threads(), sums)});
  }

  // Tiles with all rows, or with half of them; a warpgroup per 64 columns. The first option is the
  // widest tile that gives each SM a block.
  std::vector<PackedTile> tiles_for(int64_t batch) {
    const int64_t all = std::max<int64_t>(8, round_up(most(r_.i), 8));
    std::vector<PackedTile> tiles;
    for (int64_t rows : {all, ceil_div(all, 16) * 8}) {
      if (!tiles.empty() && rows == tiles.front().m) break;
      if (!gpu_wgmma_row(c_, block_, r_, rows)) continue;
      for (int64_t columns : {256, 128, 64}) {
        if (columns == kWarpgroupRows || columns < 2 * most(r_.j)) {
          tiles.push_back({rows, columns, kWeightRows});
        }
      }
    }
    auto first = std::find_if(tiles.begin(), tiles.end(), [&](const PackedTile& t) {
      return batch * ceil_div(most(r_.i), t.m) * ceil_div(most(r_.j), t.n) >=
             c_.input.target.gpu.sms;
    });
    if (first == tiles.end()) {
      first = std::find_if(tiles.begin(), tiles.end(),
                           [](const PackedTile& t) { return t.n == kWarpgroupRows; });
    }
    std::rotate(tiles.begin(), first, std::next(first));
    return tiles;
  }

  int64_t stage_bytes() const { return (tile_.m + r_.products() * tile_.n) * k_ * bits_ / 8; }

  std::vector<int64_t> depths() const {
    if (gpu_copies_boxes(copies_)) return gpu_stages_of_boxes(c_, stage_bytes());
    std::vector<int64_t> stages = {4, 6, 3, 2, 1};
    std::erase_if(stages, [&](int64_t n) {
      return n > 1 && n * stage_bytes() > c_.input.target.gpu.shared_per_block;
    });
    return stages;
  }

  // Loops b, i, j, k become: grid, k_outer (the mainloop), warp, k, and a warp's columns, rows, k.
  // Each of four warps has 16 of the 64 columns that are an instruction's rows. Neighbouring blocks
  // share the weight.
  GpuProductLoops tile_loops(const Block& product) {
    auto loop_of = [&](int iter) { return gpu_loop_of(c_.s, product, iter); };
    std::vector<Loop> grid;
    for (int b : r_.batch) grid.push_back(loop_of(b));
    std::vector<Loop> i = c_.s.split(loop_of(r_.i), {-1, tile_.m});
    std::vector<Loop> j = c_.s.split(loop_of(r_.j), {-1, tile_.n / kWeightRows, kWeightRows});
    std::vector<Loop> k = c_.s.split(loop_of(r_.k), {-1, k_ / row_->k, row_->k});
    grid.push_back(j[0]);
    grid.push_back(i[0]);
    std::vector<Loop> order = grid;
    order.insert(order.end(), {k[0], j[1], k[1], j[2], i[1], k[2]});
    c_.s.reorder(order);
    return {gpu_fused(c_, grid), k[0], k[1], j[1], k[1]};
  }

  void copy_operand(const std::string& buffer, int64_t vector) {
    if (gpu_copies_boxes(copies_)) return gpu_copy_boxes(c_, buffer);
    gpu_share_copy(c_, buffer, tile_.threads(), vector);
  }

  void finish_result() {
    for (const Block& staged : staged_) c_.s.reverse_compute_at(staged, grid_);
    c_.s.reverse_compute_at(last_, grid_);
    // Bound now, while the program still shows what is private to a block.
    c_.s.bind(grid_, ForKind::BlockX);
    if (!through_shared_) staged_ = {last_};
    for (const Block& b : staged_) gpu_bind_packed_result(c_, b, tile_.m, tile_.n);
    if (through_shared_) gpu_store_packed_rows(c_, last_, tile_.threads());
  }

  void mark() {
    c_.s.annotate(grid_, kSharedRowsKey, std::string(kSwizzled));
    if (stages_ > 1) c_.s.annotate(k_outer_, kPipelineStagesKey, stages_);
    if (pending_ > 0) c_.s.annotate(k_outer_, kWgmmaPendingKey, pending_);
    if (gpu_copies_boxes(copies_)) c_.s.annotate(k_outer_, kCopiesKey, copies_);
    gpu_mark_grid(c_, blocks_, grid_, k_outer_);
  }

  RuleContext& c_;
  Block block_, last_;
  std::vector<Block> staged_;  // staged accumulators
  GpuRoles r_;
  int bits_;
  int64_t k_;  // k of a tile: one swizzle atom
  const Instruction* row_ = nullptr;
  PackedTile tile_{};
  int64_t stages_ = 1, pending_ = 0;
  bool promotes_ = false, through_shared_ = true;
  GpuGrid blocks_;
  std::string copies_;
  std::pair<int64_t, int64_t> rows_;  // vector widths of accesses to A and to B
  Loop grid_, k_outer_;
};

}  // namespace

std::string gpu_wgmma_turned_way(RuleContext& c, const Block& block, const GpuRoles& roles) {
  const BlockNode& n = c.s.node(block);
  auto most = [&](int iter) {
    return largest_extent(c.s, n.iters[static_cast<size_t>(iter)].extent);
  };
  const bool is_plain = roles.weight == GpuRoles::WeightLayout::AsItIs && roles.result_is_box &&
                        plain_iterator(n, indices_of(n, roles.a).back()) == roles.k;
  if (!is_plain || most(roles.i) > kMostSwappedRows || most(roles.j) < kWarpgroupRows) return "";
  const Instruction* row = gpu_wgmma_row(c, block, roles, kMostSwappedRows);
  if (!row) return "";
  const std::string name(row->name);
  return "wgmma" + name.substr(name.find('_')) + "_turned";
}

void gpu_wgmma_turned_contraction(RuleContext& c, const Block& block, const GpuRoles& roles) {
  WgmmaTurnedTiler(c, block, roles).run();
}

}  // namespace tilewright
