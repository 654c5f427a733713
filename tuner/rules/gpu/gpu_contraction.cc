// Contractions on a GPU: result tiles per block and thread, accumulators in registers.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "base/ceil_div.h"
#include "codegen/cuda_lowering.h"
#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_roles.h"
#include "tuner/rules/gpu/gpu_view.h"
#include "tuner/rules/gpu/grid/gpu_grid.h"
#include "tuner/rules/gpu/product/gpu_gemv.h"
#include "tuner/rules/gpu/product/gpu_packed.h"
#include "tuner/rules/gpu/product/gpu_split.h"
#include "tuner/rules/gpu/weight/gpu_grouped.h"

namespace tilewright {
namespace {

constexpr int64_t kVector = 4;  // neighbouring results per thread

// Sizes of a block's tile, and of a thread's tile inside it.
struct Tile {
  int64_t m, n, k, thread_m, thread_n;

  std::string name() const { return fmt::format("{}x{}x{}/{}x{}", m, n, k, thread_m, thread_n); }
  int64_t threads() const { return m / thread_m * (n / thread_n); }
  // Shared-memory bytes of both operands' tiles, padding included.
  int64_t bytes() const {
    constexpr int64_t kElement = 4, kPadding = 16;  // bytes per element and per row
    return (m + n) * k * kElement + (std::max(m, n) + k) * kPadding;
  }
};

// The first option is the largest tile that gives each SM a block; the others keep their order.
std::vector<Tile> tiles_for(int64_t m, int64_t n, int64_t batch, const GpuFacts& gpu) {
  std::vector<Tile> tiles = {{128, 128, 16, 8, 8}, {128, 64, 16, 8, 4}, {64, 128, 16, 8, 8},
                             {64, 64, 16, 4, 4},   {32, 64, 16, 4, 4},  {32, 32, 32, 4, 4},
                             {16, 64, 32, 2, 4}};
  auto first = std::find_if(tiles.begin(), tiles.end(), [&](const Tile& t) {
    return ceil_div(m, t.m) * ceil_div(n, t.n) * batch >= gpu.sms;
  });
  if (first == tiles.end()) first = std::prev(std::prev(tiles.end()));
  std::rotate(tiles.begin(), first, std::next(first));
  return tiles;
}

// Inlines the dequantized value of a stored weight into the block that reads it.
void inline_weight(RuleContext& c, const Block& block) {
  std::optional<Block> value = weight_value_of(c.s, block, c.input.workload);
  if (value && c.s.consumers(*value).size() == 1) c.s.compute_inline(*value);
}

class Tiler {
 public:
  Tiler(RuleContext& c, Block block, GpuRoles roles)
      : c_(c), block_(std::move(block)), r_(std::move(roles)) {}

  void run() {
    choose();
    pad();
    last_ = gpu_place_result(c_, block_);
    tile_loops();
    c_.s.compute_at(gpu_writer(c_.s, r_.a), k_outer_);
    c_.s.compute_at(gpu_writer(c_.s, r_.b), k_outer_);
    Block init = c_.s.decompose_reduction(block_, k_outer_);
    place_fragments();
    finish_result();
    gpu_share_copy(c_, r_.a, tile_.threads(), a_row_);
    gpu_share_copy(c_, r_.b, tile_.threads(), b_row_);
    c_.s.bind(thread_, ForKind::ThreadX);
    bind_init(init);
    for (const Loop& l : inner_) c_.s.unroll(l);
    if (stages_ > 1) c_.s.annotate(k_outer_, kPipelineStagesKey, stages_);
    c_.s.bind(grid_, ForKind::BlockX);
    gpu_mark_grid(c_, blocks_, grid_, k_outer_);
  }

 private:
  const BlockNode& node() { return c_.s.node(block_); }
  int64_t extent(int iter) {
    return largest_extent(c_.s, node().iters[static_cast<size_t>(iter)].extent);
  }

  void choose() {
    int64_t batch = 1;
    for (int b : r_.batch) batch *= extent(b);
    std::vector<Tile> tiles = tiles_for(extent(r_.i), extent(r_.j), batch, c_.input.target.gpu);
    tile_ = c_.t.choose_among(block_.name + ".tile", tiles);
    bool ahead = c_.input.target.gpu.has_async_copy();
    stages_ = c_.t.choose(block_.name + ".stages",
                          ahead ? std::vector<int64_t>{3, 2, 4, 1} : std::vector<int64_t>{1, 2});
    const int64_t rows = ceil_div(extent(r_.i), tile_.m), columns = ceil_div(extent(r_.j), tile_.n);
    blocks_ = gpu_choose_grid(c_, block_.name,
                              {batch * rows * columns, ceil_div(extent(r_.k), tile_.k),
                               stages_ * tile_.bytes(), tile_.threads()});
  }

  // Stages the operands in shared memory; zeros fill partial tiles.
  void pad() {
    std::tie(a_row_, b_row_) = gpu_row_vectors(c_, block_, r_);
    gpu_stage_operands(c_, block_, r_, tile_.m, tile_.n, tile_.k);
    for (const std::string& operand : {r_.a, r_.b}) inline_weight(c_, gpu_writer(c_.s, operand));
  }

  // Loops b, i, j, k become: grid, k_outer (the mainloop), thread, k, lanes of k, vectors apart,
  // rows, columns of a vector.
  void tile_loops() {
    auto loop_of = [&](int iter) { return gpu_loop_of(c_.s, block_, iter); };
    std::vector<Loop> grid;
    for (int b : r_.batch) grid.push_back(loop_of(b));
    std::vector<Loop> i = c_.s.split(loop_of(r_.i), {-1, tile_.m / tile_.thread_m, tile_.thread_m});
    std::vector<Loop> j = c_.s.split(
        loop_of(r_.j), {-1, tile_.thread_n / kVector, tile_.n / tile_.thread_n, kVector});
    std::vector<Loop> k = c_.s.split(loop_of(r_.k), {-1, tile_.k / kVector, kVector});
    std::vector<Loop> order = grid;
    for (const Loop& l : {i[0], j[0], k[0], i[1], j[2], k[1], k[2], j[1], i[2], j[3]}) {
      order.push_back(l);
    }
    c_.s.reorder(order);
    grid.push_back(i[0]);
    grid.push_back(j[0]);
    grid_ = gpu_fused(c_, grid);
    k_outer_ = k[0];
    thread_ = c_.s.fuse({i[1], j[2]});
    k_inner_ = k[1];
    j_apart_ = j[1];
    inner_ = {k[2], j[1], i[2], j[3]};
  }

  // Copies a thread's operands to registers.
  void place_fragments() {
    Block a = c_.s.cache_read(block_, r_.a, Scope::Register);
    c_.s.compute_at(a, k_inner_);
    copy_in_vectors(a, 4);
    Block b = c_.s.cache_read(block_, r_.b, Scope::Register);
    c_.s.compute_at(b, j_apart_);
    copy_in_vectors(b, 6);
  }

  void copy_in_vectors(const Block& copy, size_t around) {
    const std::vector<Loop> loops = c_.s.loops(copy);
    gpu_copy_in_vectors(c_, {loops.begin() + static_cast<long>(around), loops.end()}, kVector);
  }

  // Epilogue: moves the result tile to its place; each thread stores its own accumulators.
  void finish_result() {
    c_.s.reverse_compute_at(last_, grid_);
    std::vector<Loop> loops = c_.s.loops(last_);
    std::vector<Loop> own(loops.begin() + 1, loops.end());
    std::vector<Loop> i =
        c_.s.split(own[own.size() - 2], {tile_.m / tile_.thread_m, tile_.thread_m});
    std::vector<Loop> j =
        c_.s.split(own.back(), {tile_.thread_n / kVector, tile_.n / tile_.thread_n, kVector});
    c_.s.reorder({i[0], j[1], j[0], i[1], j[2]});
    Loop thread = c_.s.fuse({i[0], j[1]});
    c_.s.bind(thread, ForKind::ThreadX);
    c_.s.unroll(j[0]);
    c_.s.unroll(i[1]);
    c_.s.vectorize(j[2]);
  }

  void bind_init(const Block& init) {
    std::vector<Loop> loops = c_.s.loops(init);
    c_.s.bind(loops[1], ForKind::ThreadX);
    for (size_t l = 2; l + 1 < loops.size(); ++l) c_.s.unroll(loops[l]);
    c_.s.vectorize(loops.back());
  }

  RuleContext& c_;
  Block block_, last_;
  GpuRoles r_;
  Tile tile_{};
  int64_t stages_ = 1, a_row_ = 1, b_row_ = 1;
  GpuGrid blocks_;
  Loop grid_, k_outer_, thread_, k_inner_, j_apart_;
  std::vector<Loop> inner_;
};

// Any other contraction: one result per thread, accumulated in a register.
void simple_contraction(RuleContext& c, const Block& block) {
  BlockFacts facts = analyze(c.s, block);
  Block copy = c.s.cache_write(block, c.s.output(block)->name, Scope::Register);
  std::vector<Loop> loops = c.s.loops(block);
  std::vector<Loop> spatial(loops.begin(), loops.begin() + static_cast<long>(facts.spatial.size()));
  int64_t threads = c.t.choose(block.name + ".threads", std::vector<int64_t>{128, 256, 64});
  std::vector<Loop> grid = gpu_thread_grid(c, spatial, threads);
  c.s.reverse_compute_at(copy, grid.back());
  if (loops.size() > spatial.size()) c.s.decompose_reduction(block, loops[spatial.size()]);
  gpu_bind_grid(c, grid);
}

}  // namespace

void gpu_contraction(RuleContext& c, const Block& whole) {
  auto roles = gpu_roles_of(c.s, whole);
  // A plain weight is packed only for matrix instructions.
  const bool is_stored = c.input.workload.weight.has_value();
  std::optional<GpuRoles> stored = roles || !is_stored ? roles : gpu_grouped_roles(c, whole);
  if (stored && is_stored && gpu_packed_contraction(c, whole, *stored)) return;
  if (roles && gpu_gemv(c, whole, *roles)) return;
  if (roles && !is_stored && gpu_packed_contraction(c, whole, *roles)) return;
  // Split-K makes a weight a stack of matrices, for which the stored layouts have no form.
  const bool is_laid_out = roles && roles->weight != GpuRoles::WeightLayout::AsItIs;
  const bool was_product = roles.has_value();
  const Block block = is_laid_out ? whole : gpu_split_terms(c, whole);
  if (!(block == whole)) roles = gpu_roles_of(c.s, block);
  if (!roles) roles = gpu_view_as_product(c, block);
  if (roles && !(block == whole)) roles->is_part = was_product;
  const BlockNode& n = c.s.node(block);
  bool is_vector = roles && (is_int(n.iters[static_cast<size_t>(roles->i)].extent, 1) ||
                             is_int(n.iters[static_cast<size_t>(roles->j)].extent, 1));
  if (roles && !is_vector && gpu_tensor_contraction(c, block, *roles)) return;
  if (roles && !is_vector) return Tiler(c, block, *roles).run();
  auto reads_along = [&](const std::string& operand) {
    return plain_iterator(n, indices_of(n, operand).back()) == roles->k;
  };
  bool along = roles && reads_along(roles->a) && reads_along(roles->b);
  inline_weight(c, block);
  if (along) return gpu_row_reduction(c, block);
  simple_contraction(c, block);
}

}  // namespace tilewright
