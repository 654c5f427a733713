// Contractions on a GPU with warp-level matrix instructions (mma).
#include <algorithm>
#include <utility>

#include "base/ceil_div.h"
#include "codegen/cuda/instructions/cuda_mma.h"
#include "codegen/cuda/instructions/cuda_stmatrix.h"
#include "codegen/cuda_lowering.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_roles.h"
#include "tuner/rules/gpu/gpu_siblings.h"
#include "tuner/rules/gpu/gpu_tensor_parts.h"
#include "tuner/rules/gpu/gpu_tiles.h"
#include "tuner/rules/gpu/grid/gpu_grid.h"
#include "tuner/rules/gpu/product/gpu_wgmma.h"
#include "tuner/rules/gpu/product/gpu_wgmma_turned.h"

namespace tilewright {
namespace {

constexpr int64_t kMostWarpSums = 64 * 64;  // accumulators that a warp's registers hold

// The row for the types of the block's operands and accumulators; null if there is none.
const Instruction* row_for(const Schedule& s, const Block& block, const GpuRoles& r,
                           const Target& t) {
  const BlockNode& n = s.node(block);
  const ElemType sums = store_of(n).buffer->elem, a = read_elem(n, r.a), b = read_elem(n, r.b);
  for (const Instruction& row : mma_rows()) {
    // tf32 is excluded: its results would be less exact than those of f32. Rows that split f32 in
    // two are allowed.
    bool fits = row.operand == a && row.b_operand() == b && row.acc == sums && !row.tf32;
    if (fits && is_printed(row) && row.runs_on(t.gpu.compute_capability)) return &row;
  }
  return nullptr;
}

class TensorTiler {
 public:
  TensorTiler(RuleContext& c, Block block, GpuRoles roles, const Instruction& row)
      : c_(c), block_(std::move(block)), r_(std::move(roles)), row_(row) {}

  void run() {
    choose();
    auto [a_row, b_row] = gpu_row_vectors(c_, block_, r_);
    const std::string weight = r_.b;
    const bool along_k = plain_iterator(node(), indices_of(node(), weight).back()) == r_.k;
    gpu_stage_operands(c_, block_, r_, tile_.m, tile_.n, tile_.k);
    if (r_.weight == GpuRoles::WeightLayout::Tiles) lay_by_tiles(weight, along_k);
    gpu_lay_along_terms(c_, block_, r_.a, r_.k);
    if (r_.weight == GpuRoles::WeightLayout::Matrices) {
      b_row = lay_by_matrices(weight, along_k);
    } else {
      gpu_lay_along_terms(c_, block_, r_.b, r_.k);
    }
    for (const GpuSibling& s : r_.siblings) gpu_lay_along_terms(c_, s.block, s.b, r_.k);
    last_ = gpu_place_results(c_, block_, r_);
    const std::vector<Block> products = gpu_products(block_, r_);
    std::vector<GpuProductLoops> loops;
    for (const Block& p : products) {
      gpu_lay_out_sums(c_, p, row_.m);
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
    gpu_share_copy(c_, r_.a, tile_.threads(), a_row);
    gpu_share_copy(c_, r_.b, tile_.threads(), b_row);
    for (const GpuSibling& s : r_.siblings) gpu_share_copy(c_, s.b, tile_.threads(), b_row);
    for (const Block& init : inits) finish_init(init);
    for (const GpuProductLoops& l : loops) {
      c_.s.annotate(l.marked, kMmaKey, std::string(row_.name));
      c_.s.unroll(l.steps);
      c_.s.bind(l.warp, ForKind::Warp);
    }
    if (swizzled_) c_.s.annotate(grid_, kSharedRowsKey, std::string(kSwizzled));
    if (stages_ > 1) c_.s.annotate(k_outer_, kPipelineStagesKey, stages_);
    gpu_mark_grid(c_, blocks_, grid_, k_outer_);
  }

 private:
  const BlockNode& node() { return c_.s.node(block_); }
  const Expr& extent(int iter) { return node().iters[static_cast<size_t>(iter)].extent; }
  int64_t most(int iter) { return largest_extent(c_.s, extent(iter)); }

  void choose() {
    int64_t batch = 1;
    for (int b : r_.batch) batch *= most(b);
    std::vector<TensorTileSizes> tiles =
        tensor_tiles_for(most(r_.i), most(r_.j), most(r_.k), batch, row_, c_.input.target.gpu);
    if (r_.products() > 1) {
      std::erase_if(tiles, [&](const TensorTileSizes& t) {
        return r_.products() * t.warp_m * t.warp_n > kMostWarpSums;
      });
    }
    tile_ = c_.t.choose_among(block_.name + ".tile", tiles);
    stages_ = c_.t.choose(block_.name + ".stages", stages_that_fit());
    swizzled_ = c_.t.choose(block_.name + ".rows", std::vector<std::string>{kSwizzled, "padded"}) ==
                kSwizzled;
    // The results of im2col are not a matrix in memory.
    if (!r_.is_gathered()) {
      stores_ = c_.t.choose(block_.name + ".stores",
                            gpu_ways_to_store(c_, gpu_last_product(block_, r_), tile_, extent(r_.i),
                                              extent(r_.j), row_.m));
    }
    const int64_t rows = ceil_div(most(r_.i), tile_.m);
    const int64_t columns = ceil_div(most(r_.j), tile_.n);
    if (as_int(extent(r_.i))) {  // a dynamic i has no fixed number of tile rows
      group_ = c_.t.choose(block_.name + ".group", tile_groups_for(rows, columns));
    }
    const int64_t terms = ceil_div(most(r_.k), tile_.k);
    blocks_ = gpu_choose_grid(
        c_, block_.name,
        {batch * rows * columns, terms, shared_bytes(), tile_.threads(), r_.siblings.empty()});
  }

  int64_t shared_bytes() const {
    constexpr int64_t kResult = 4, kPadding = 16;  // bytes per element at most, and per row
    return stages_ * tile_.bytes(row_, r_.products()) +
           (is_through_shared() ? tile_.m * (tile_.n * kResult + kPadding) : 0);
  }

  bool is_through_shared() const { return stores_ != "direct"; }

  std::vector<int64_t> stages_that_fit() const {
    const int64_t bytes = tile_.bytes(row_, r_.products());
    std::vector<int64_t> stages = {3, 2, 4, 5, 1};
    std::erase_if(stages, [&](int64_t n) {
      return n > 1 && n * bytes > c_.input.target.gpu.shared_per_block;
    });
    return stages;
  }

  // Makes each tile of the weight contiguous, with its elements in order.
  void lay_by_tiles(const std::string& weight, bool along_k) {
    const int64_t rows = along_k ? tile_.n : tile_.k, columns = along_k ? tile_.k : tile_.n;
    c_.s.prepack(weight, IndexMap::make(2, [&](const std::vector<Var>& x) {
                   return std::vector<Expr>{floordiv(x[0], rows), floordiv(x[1], columns),
                                            floormod(x[0], rows), floormod(x[1], columns)};
                 }));
  }

  // The same, with each matrix of 8 columns by 16 bytes along k contiguous, in memory and in shared
  // memory. A thread copies 16 contiguous bytes. The 8 rows that ldmatrix reads at once are 128
  // bytes across all banks, without swizzle or padding. Returns the vector width of a copy.
  int64_t lay_by_matrices(const std::string& weight, bool along_k) {
    constexpr int64_t kColumns = 8;
    const int64_t piece = 128 / row_.operand_bits(), n = tile_.n, k = tile_.k;
    const size_t at_n = along_k ? 0 : 1, at_k = 1 - at_n;
    auto matrices = [=](const Expr& x_n, const Expr& x_k) {
      return std::vector<Expr>{floordiv(x_n, kColumns), floordiv(x_k, piece),
                               floormod(x_n, kColumns), floormod(x_k, piece)};
    };
    c_.s.prepack(weight, IndexMap::make(2, [&](const std::vector<Var>& x) {
                   std::vector<Expr> place = {floordiv(x[at_n], n), floordiv(x[at_k], k)};
                   for (const Expr& e : matrices(floormod(x[at_n], n), floormod(x[at_k], k))) {
                     place.push_back(e);
                   }
                   return place;
                 }));
    const IndexMap shared =
        IndexMap::make(2, [&](const std::vector<Var>& x) { return matrices(x[at_n], x[at_k]); });
    c_.s.transform_layout(r_.b, shared);
    c_.s.transform_block_layout(gpu_writer(c_.s, r_.b), shared);
    return piece;
  }

  // Loops b, i, j, k become: grid, k_outer (the mainloop), warp, k, row fragments, column
  // fragments, loops inside an instruction. Blocks run down groups of tile rows, then along them.
  GpuProductLoops tile_loops(const Block& product) {
    auto loop_of = [&](int iter) { return gpu_loop_of(c_.s, product, iter); };
    std::vector<Loop> grid;
    for (int b : r_.batch) grid.push_back(loop_of(b));
    std::vector<Loop> i =
        c_.s.split(loop_of(r_.i), {-1, tile_.m / tile_.warp_m, tile_.warp_m / row_.m, row_.m});
    std::vector<Loop> j =
        c_.s.split(loop_of(r_.j), {-1, tile_.n / tile_.warp_n, tile_.warp_n / 8, 8});
    std::vector<Loop> k = c_.s.split(loop_of(r_.k), {-1, tile_.k / row_.k, row_.k});
    std::vector<Loop> rows = {i[0]};
    if (group_ > 1) rows = c_.s.split(i[0], {-1, group_});
    grid.push_back(rows[0]);
    grid.push_back(j[0]);
    if (group_ > 1) grid.push_back(rows[1]);
    std::vector<Loop> order = grid;
    for (const Loop& l : {k[0], i[1], j[1], k[1], i[2], j[2], i[3], j[3], k[2]}) {
      order.push_back(l);
    }
    c_.s.reorder(order);
    const Loop tiles = gpu_fused(c_, grid), warp = c_.s.fuse({i[1], j[1]});
    // Loops of one iteration are gone when the nest is matched.
    return {tiles, k[0], k[1], warp, tile_.warp_m > row_.m ? i[2] : j[2]};
  }

  void finish_init(const Block& init) {
    std::vector<Loop> loops = c_.s.loops(init);
    gpu_bind_lanes(c_, accumulators(row_.m), loops[1], {loops.begin() + 2, loops.end() - 2},
                   loops[loops.size() - 2], loops.back());
  }

  void finish_result() {
    Block copy;
    if (is_through_shared()) {
      copy = c_.s.cache_write(last_, c_.s.output(last_)->name, Scope::Shared);
    }
    c_.s.reverse_compute_at(last_, grid_);
    if (is_through_shared()) c_.s.reverse_compute_at(copy, grid_);
    // Bound now, while the program still shows what is private to a block.
    c_.s.bind(grid_, ForKind::BlockX);
    std::vector<Loop> loops = c_.s.loops(last_);
    std::vector<Loop> i = c_.s.split(loops[loops.size() - 2],
                                     {tile_.m / tile_.warp_m, tile_.warp_m / row_.m, row_.m});
    std::vector<Loop> j = c_.s.split(loops.back(), {tile_.n / tile_.warp_n, tile_.warp_n / 8, 8});
    c_.s.reorder({i[0], j[0], i[1], j[1], i[2], j[2]});
    std::vector<Loop> fragments = {i[1], j[1]};
    if (stores_ == "stmatrix") {  // two adjacent fragments are four matrices
      std::vector<Loop> pairs = c_.s.split(j[1], {-1, 2});
      fragments = {i[1], pairs[0], pairs[1]};
      c_.s.annotate(pairs[1], kStmatrixKey, int64_t{1});
    }
    gpu_bind_lanes(c_, accumulators(row_.m), c_.s.fuse({i[0], j[0]}), fragments, i[2], j[2]);
    if (is_through_shared()) gpu_store_rows(c_, copy, tile_);
  }

  RuleContext& c_;
  Block block_, last_;
  GpuRoles r_;
  const Instruction& row_;
  TensorTileSizes tile_{};
  int64_t stages_ = 1, group_ = 1;
  GpuGrid blocks_;
  bool swizzled_ = false;
  std::string stores_ = "direct";
  Loop grid_, k_outer_;
};

}  // namespace

bool gpu_has_tensor_contraction(RuleContext& c, const Block& block, const GpuRoles& roles) {
  return row_for(c.s, block, roles, c.input.target) != nullptr;
}

bool gpu_tensor_contraction(RuleContext& c, const Block& block, const GpuRoles& roles) {
  const Instruction* row = row_for(c.s, block, roles, c.input.target);
  if (!row) return false;
  std::vector<std::string> ways = {std::string(row->name)};
  // Stored layouts and joined products exist for matrix instructions only.
  const bool is_joint = !roles.siblings.empty();
  if (roles.weight == GpuRoles::WeightLayout::AsItIs && !is_joint) ways.emplace_back("none");
  // wgmma variants come after these, so that earlier first choices stay the same.
  const std::string wgmma = gpu_wgmma_way(c, block, roles);
  if (!wgmma.empty()) ways.push_back(wgmma);
  const std::string turned = gpu_wgmma_turned_way(c, block, roles);
  if (!turned.empty()) ways.push_back(turned);
  if (!row->split.empty() && !is_joint) std::swap(ways.front(), ways.back());
  const std::string way = c.t.choose(block.name + ".mma", ways);
  if (way == "none") return false;
  if (!wgmma.empty() && way == wgmma) {
    gpu_wgmma_contraction(c, block, roles);
    return true;
  }
  if (!turned.empty() && way == turned) {
    gpu_wgmma_turned_contraction(c, block, roles);
    return true;
  }
  TensorTiler(c, block, roles, *row).run();
  return true;
}

}  // namespace tilewright
