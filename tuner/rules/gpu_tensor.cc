// Contractions on a GPU by matrix instructions of warps.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "codegen/cuda_mma.h"
#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu.h"
#include "tuner/rules/gpu_roles.h"

namespace tilewright {
namespace {

constexpr int64_t kWarp = 32;

// A block's tile, in warps of `warp_m` x `warp_n` results each.
struct TensorTileSizes {
  int64_t m, n, k, warp_m, warp_n;

  std::string name() const { return fmt::format("{}x{}x{}/{}x{}", m, n, k, warp_m, warp_n); }
  int64_t threads() const { return m / warp_m * (n / warp_n) * kWarp; }
};

// The largest one first that gives each multiprocessor a block, then the others. Tiles of k hold
// two instructions, and warps two fragments at least each way.
std::vector<TensorTileSizes> tiles_for(int64_t m, int64_t n, int64_t batch, const MmaRow& row,
                                       const GpuFacts& gpu) {
  int64_t k = 2 * row.k;
  std::vector<TensorTileSizes> tiles = {{128, 128, k, 64, 32}, {128, 64, k, 64, 32},
                                        {64, 128, k, 32, 32},  {64, 64, k, 32, 32},
                                        {32, 64, k, 32, 16},   {32, 32, k, 32, 16}};
  auto first = std::find_if(tiles.begin(), tiles.end(), [&](const TensorTileSizes& t) {
    return (m + t.m - 1) / t.m * ((n + t.n - 1) / t.n) * batch >= gpu.sms;
  });
  if (first == tiles.end()) first = std::prev(tiles.end());
  std::rotate(tiles.begin(), first, std::next(first));
  return tiles;
}

// The row for the types of the block's operands and sums; null when there is none.
const MmaRow* row_for(const Schedule& s, const Block& block, const GpuRoles& r, const Target& t) {
  const BlockNode& n = s.node(block);
  ElemType sums = store_of(n).buffer->elem;
  std::vector<ElemType> types;
  for_each_expr(store_of(n).value, [&](const Expr& e) {
    auto* load = e.as<LoadNode>();
    if (load && load->buffer != store_of(n).buffer) types.push_back(load->buffer->elem);
  });
  bool along_k = plain_iterator(n, indices_of(n, r.a).back()) == r.k;
  bool b_along_k = plain_iterator(n, indices_of(n, r.b).back()) == r.k;
  for (const MmaRow& row : mma_rows()) {
    bool fits = !row.tf32 && row.min_sm <= t.gpu.compute_capability && row.acc == sums &&
                row.a_registers() == 4 && row.b_registers() == 2;
    for (ElemType type : types) fits &= type == row.operand;
    if (fits && along_k && (b_along_k || row.operand_bits() == 16)) return &row;
  }
  return nullptr;
}

class TensorTiler {
 public:
  TensorTiler(RuleContext& c, Block block, GpuRoles roles, const MmaRow& row)
      : c_(c), block_(std::move(block)), r_(std::move(roles)), row_(row) {}

  void run() {
    choose();
    int64_t a_row = gpu_row_vector(c_, block_, r_.a), b_row = gpu_row_vector(c_, block_, r_.b);
    gpu_stage_operands(c_, block_, r_, tile_.m, tile_.n, tile_.k);
    last_ = gpu_place_result(c_, block_);
    lay_out_sums();
    tile_loops();
    c_.s.compute_at(gpu_writer(c_.s, r_.a), k_outer_);
    c_.s.compute_at(gpu_writer(c_.s, r_.b), k_outer_);
    Block init = c_.s.decompose_reduction(block_, k_outer_);
    finish_result();
    gpu_share_copy(c_, r_.a, tile_.threads(), a_row);
    gpu_share_copy(c_, r_.b, tile_.threads(), b_row);
    finish_init(init);
    c_.s.annotate(marked_, kMmaKey, std::string(row_.name));
    c_.s.bind(warp_, ForKind::Warp);
    if (stages_ > 1) c_.s.annotate(k_outer_, "pipeline_stages", stages_);
    c_.s.bind(grid_, ForKind::BlockX);
  }

 private:
  const BlockNode& node() { return c_.s.node(block_); }
  int64_t extent(int iter) { return *as_int(node().iters[static_cast<size_t>(iter)].extent); }

  void choose() {
    int64_t batch = 1;
    for (int b : r_.batch) batch *= extent(b);
    std::vector<TensorTileSizes> tiles =
        tiles_for(extent(r_.i), extent(r_.j), batch, row_, c_.input.target.gpu);
    std::vector<std::string> names;
    for (const TensorTileSizes& t : tiles) names.push_back(t.name());
    std::string name = c_.t.choose(block_.name + ".tile", names);
    for (const TensorTileSizes& t : tiles) {
      if (t.name() == name) tile_ = t;
    }
    stages_ = c_.t.choose(block_.name + ".stages", std::vector<int64_t>{3, 2, 4, 5, 1});
  }

  // Sums where the instruction leaves them: by fragment, lane and register (acc_place()).
  void lay_out_sums() {
    std::string sums = store_of(node()).buffer->name;
    int rank = store_of(node()).buffer->rank();
    c_.s.transform_layout(sums, IndexMap::make(rank, [&](const std::vector<Var>& x) {
                            std::vector<Expr> out(x.begin(), x.end() - 2);
                            const Expr &i = x[x.size() - 2], &j = x.back();
                            out.push_back(floordiv(i, 16));
                            out.push_back(floordiv(j, 8));
                            out.push_back(floormod(i, 8) * 4 + floordiv(floormod(j, 8), 2));
                            out.push_back(floordiv(floormod(i, 16), 8) * 2 + floormod(j, 2));
                            return out;
                          }));
  }

  // b, i, j, k -> grid, k_outer, warp, k, fragments of rows, of columns, and in an instruction
  void tile_loops() {
    auto loop_of = [&](int iter) {
      return Loop{Var(node().iters[static_cast<size_t>(iter)].binding).name()};
    };
    std::vector<Loop> grid;
    for (int b : r_.batch) grid.push_back(loop_of(b));
    std::vector<Loop> i =
        c_.s.split(loop_of(r_.i), {-1, tile_.m / tile_.warp_m, tile_.warp_m / 16, 16});
    std::vector<Loop> j =
        c_.s.split(loop_of(r_.j), {-1, tile_.n / tile_.warp_n, tile_.warp_n / 8, 8});
    std::vector<Loop> k = c_.s.split(loop_of(r_.k), {-1, tile_.k / row_.k, row_.k});
    std::vector<Loop> order = grid;
    for (const Loop& l : {i[0], j[0], k[0], i[1], j[1], k[1], i[2], j[2], i[3], j[3], k[2]}) {
      order.push_back(l);
    }
    c_.s.reorder(order);
    grid.push_back(i[0]);
    grid.push_back(j[0]);
    grid_ = gpu_fused(c_, grid);
    k_outer_ = k[0];
    warp_ = c_.s.fuse({i[1], j[1]});
    marked_ = i[2];
  }

  // Loops over a tile of results, warps outermost, as those of the threads that hold their sums.
  void bind_lanes(const Loop& warp, const std::vector<Loop>& fragments, const Loop& i,
                  const Loop& j) {
    std::vector<Loop> rows = c_.s.split(i, {2, 8}), columns = c_.s.split(j, {4, 2});
    std::vector<Loop> order = {warp, rows[1], columns[0]};
    order.insert(order.end(), fragments.begin(), fragments.end());
    order.push_back(rows[0]);
    order.push_back(columns[1]);
    c_.s.reorder(order);
    c_.s.bind(c_.s.fuse({warp, rows[1], columns[0]}), ForKind::ThreadX);
    for (const Loop& f : fragments) c_.s.unroll(f);
    c_.s.unroll(rows[0]);
    c_.s.vectorize(columns[1]);
  }

  void finish_init(const Block& init) {
    std::vector<Loop> loops = c_.s.loops(init);
    bind_lanes(loops[1], {loops.begin() + 2, loops.end() - 2}, loops[loops.size() - 2],
               loops.back());
  }

  void finish_result() {
    c_.s.reverse_compute_at(last_, grid_);
    std::vector<Loop> loops = c_.s.loops(last_);
    std::vector<Loop> i =
        c_.s.split(loops[loops.size() - 2], {tile_.m / tile_.warp_m, tile_.warp_m / 16, 16});
    std::vector<Loop> j = c_.s.split(loops.back(), {tile_.n / tile_.warp_n, tile_.warp_n / 8, 8});
    c_.s.reorder({i[0], j[0], i[1], j[1], i[2], j[2]});
    bind_lanes(c_.s.fuse({i[0], j[0]}), {i[1], j[1]}, i[2], j[2]);
  }

  RuleContext& c_;
  Block block_, last_;
  GpuRoles r_;
  const MmaRow& row_;
  TensorTileSizes tile_{};
  int64_t stages_ = 1;
  Loop grid_, k_outer_, warp_, marked_;
};

}  // namespace

bool gpu_tensor_contraction(RuleContext& c, const Block& block, const GpuRoles& roles) {
  const MmaRow* row = row_for(c.s, block, roles, c.input.target);
  if (!row) return false;
  std::vector<std::string> ways = {std::string(row->name), "none"};
  if (c.t.choose(block.name + ".mma", ways) == "none") return false;
  TensorTiler(c, block, roles, *row).run();
  return true;
}

}  // namespace tilewright
