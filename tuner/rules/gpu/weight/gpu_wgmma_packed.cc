#include "tuner/rules/gpu/weight/gpu_wgmma_packed.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/ceil_div.h"
#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda/instructions/cuda_mma.h"
#include "codegen/cuda/instructions/cuda_wgmma_nest.h"
#include "codegen/cuda_lowering.h"
#include "kernel/instructions/tensor_sums.h"
#include "kernel/instructions/wgmma_rows.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/copy/gpu_tensor_copies.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_packed_layout.h"
#include "tuner/rules/gpu/gpu_packed_parts.h"
#include "tuner/rules/gpu/gpu_siblings.h"
#include "tuner/rules/gpu/gpu_tensor_parts.h"
#include "tuner/rules/gpu/gpu_tiles.h"
#include "tuner/rules/gpu/gpu_units.h"
#include "tuner/rules/gpu/grid/gpu_cluster.h"
#include "tuner/rules/gpu/grid/gpu_grid.h"
#include "tuner/rules/gpu/grid/gpu_tile_order.h"
#include "tuner/rules/gpu/product/gpu_wgmma.h"
#include "tuner/rules/gpu/weight/gpu_grouped.h"
#include "tuner/rules/gpu/weight/gpu_sparse.h"
#include "tuner/rules/gpu/weight/gpu_wgmma_packed_row.h"

namespace tilewright {
namespace {

// Epilogue stores: accumulators through shared memory, accumulators directly, or results through
// shared memory in their own type. In the last case threads or TMA store them.
constexpr const char* kSums = "shared";
constexpr const char* kDirect = "direct";
constexpr const char* kResults = "shared_result";

class WgmmaPackedTiler {
 public:
  WgmmaPackedTiler(RuleContext& c, Block block, GpuRoles roles,
                   const std::vector<Packable>& weights)
      : c_(c), block_(std::move(block)), r_(std::move(roles)), w_(weights.front()),
        chunk_(wgmma_packed_chunk(w_)) {
    const std::vector<Block> blocks = gpu_products(block_, r_);
    for (size_t p = 0; p < blocks.size(); ++p) products_.push_back({blocks[p], weights[p]});
  }

  void run() {
    choose();
    const int64_t a_row = gpu_row_vectors(c_, block_, r_).first;
    gpu_stage_operands(c_, block_, r_, tile_.m, tile_.n, k_, Scope::Register);
    // Lays out activations in chunks, as the instruction reads them: rows of a swizzle atom.
    if (k_ > chunk_) gpu_lay_terms_in_spans(c_, r_.a, chunk_);
    for (size_t p = 0; p < products_.size(); ++p) {
      products_[p].b = p == 0 ? r_.b : r_.siblings[p - 1].b;
      pack(products_[p]);
    }
    last_ = gpu_place_results(c_, block_, r_);
    if (is_staged()) {
      staged_ = c_.s.cache_read(last_, c_.s.output(block_)->name, Scope::Shared);
    }
    for (Product& p : products_) {
      gpu_lay_out_sums(c_, p.block, kWeightRows, true);
      tile_loops(p);
    }
    const GpuTileCopies copies{copies_, tile_.threads()};
    // Blocks between the products move into their loops before these are merged.
    for (size_t p = 1; p < products_.size(); ++p) place_weight(products_[p], copies);
    join_loops();
    c_.s.compute_at(gpu_writer(c_.s, r_.a), k_outer_);
    place_weight(products_.front(), copies);
    for (Product& p : products_) {
      p.init = c_.s.decompose_reduction(p.block, k_outer_);
      gpu_bind_packed_sums(c_, p.init, 1);
    }
    for (Product& p : products_) {
      if (w_.scaled) scale_sums(p);
      if (promotes_) promote_sums(p);
      if (staged_scales_) {
        gpu_stage_scales(c_, {p.elements, p.block}, p.weight.format, k_outer_, copies);
      }
    }
    finish_result();
    copies.carry_out(c_, r_.a, a_row);
    for (const Product& p : products_) {
      copies.carry_out(c_, c_.s.output(p.shared)->name, 128 / bits_of(w_.codes));
    }
    mark();
  }

 private:
  // One of the products of a tile of activations, with its own weight.
  struct Product {
    Block block;
    Packable weight;
    std::string b = {};  // elements in registers
    Block elements = {}, shared = {}, codes = {}, init = {};
    Loop grid = {}, k_outer = {}, k_chunk = {}, warp = {}, marked = {};
    std::optional<Loop> halves = {};  // over the two elements of a doubled code
    // The accumulation over all of k, if it is scaled afterwards.
    std::optional<Block> of_terms = {};
    std::optional<GpuPlaces> places = {};  // metadata of a sparse weight
  };

  bool is_joint() const { return products_.size() > 1; }
  // A single product stages its accumulators in shared memory; several products stage the
  // epilogue's result.
  bool is_staged() const { return store_ == kSums && !is_joint(); }
  const BlockNode& node() { return c_.s.node(block_); }
  int64_t extent(int iter) {
    return largest_extent(c_.s, node().iters[static_cast<size_t>(iter)].extent);
  }

  void choose() {
    const bool of_groups = w_.scaled && w_.group > 0;
    promotes_ = gpu_promotes(c_, block_, w_.operand, of_groups ? w_.group : extent(r_.k));
    std::vector<PackedTile> tiles =
        wgmma_packed_tiles_for(extent(r_.i), extent(r_.j), sets_of_sums(), c_.input.target.gpu);
    std::erase_if(tiles, [&](const PackedTile& t) { return !wgmma_packed_row(c_, w_, t.m); });
    tile_ = c_.t.choose_among(block_.name + ".tile", tiles);
    row_ = wgmma_packed_row(c_, w_, tile_.m);
    store_ = c_.t.choose(block_.name + ".store", ways_to_store());
    staged_scales_ = gpu_may_stage_scales(c_, w_, extent(r_.j), tile_.n) &&
                     c_.t.choose(block_.name + ".scales",
                                 std::vector<std::string>{"staged", "direct"}) == "staged";
    k_ = c_.t.choose(block_.name + ".k", lengths());
    copies_ = choose_copies();
    stages_ = c_.t.choose(block_.name + ".stages", depths());
    choose_cluster();
    layout_ = packed_layout(tile_.n, w_.kept(chunk_), bits_of(w_.codes), w_.row);
    choose_order();
    choose_grid();
  }

  // Rounding before or after shared memory gives the same values. TMA stores require TMA loads.
  std::vector<std::string> ways_to_store() {
    // With dynamic rows, the last tile may have fewer rows than threads copy together. Rows shorter
    // than a tile cannot be divided evenly.
    const Expr& rows = node().iters[static_cast<size_t>(r_.i)].extent;
    if (!as_int(rows) || extent(r_.j) < tile_.n) return {kDirect};
    std::vector<std::string> ways = {kSums, kDirect};
    if (is_joint()) return ways;
    result_elem_ = gpu_result_elem(c_, block_);
    if (bits_of(result_elem_) < bits_of(w_.row.acc)) ways.emplace_back(kResults);
    box_columns_ = gpu_box_columns(c_, block_, {tile_.m, tile_.n, k_, tile_.m, tile_.n},
                                   node().iters[static_cast<size_t>(r_.j)].extent);
    if (box_columns_ > 0 && are_rows()) ways.emplace_back(kInBoxes);
    return ways;
  }

  // The tile order of the swapped product: its rows are the weight's columns.
  void choose_order() {
    if (!as_int(node().iters[static_cast<size_t>(r_.i)].extent)) return;
    const int64_t rows = ceil_div(extent(r_.j), tile_.n) / cluster_.columns;
    const int64_t columns = ceil_div(extent(r_.i), tile_.m);
    order_ = gpu_choose_tile_order(c_, block_.name, {cluster_.columns, 1}, rows, columns);
  }

  // Blocks of neighbouring columns share the activations' TMA tiles. Each tile is cut into parts of
  // whole swizzle patterns. The weight has no tile beyond its columns.
  void choose_cluster() {
    constexpr int64_t kPair = 2, kPatternBytes = 1024;
    const int64_t box = tile_.m * chunk_ * bits_of(w_.operand) / 8;
    const int64_t columns = ceil_div(extent(r_.j), tile_.n);
    if (box % (kPair * kPatternBytes) != 0 || columns % kPair != 0) return;
    cluster_ = gpu_choose_cluster(c_, block_.name, copies_, 1, columns);
  }

  void choose_grid() {
    int64_t tiles = ceil_div(extent(r_.i), tile_.m) * ceil_div(extent(r_.j), tile_.n);
    for (int b : r_.batch) tiles *= extent(b);
    // Column scales need accumulators of their own, so blocks cannot share k.
    const bool scales_behind = w_.scaled && w_.group == 0;
    const bool may_share = !scales_behind && !is_joint() && !order_.is_curve();
    blocks_ = gpu_choose_grid(c_, block_.name,
                              {tiles, ceil_div(w_.k, k_), shared_bytes(k_, stages_),
                               gpu_threads_with_copies(c_, copies_, tile_.threads()), may_share,
                               cluster_.blocks(), registers()});
  }

  // Sets of accumulators per thread: one per product, and one for a group or a promoted tile, which
  // one product needs at a time.
  int sets_of_sums() const {
    return static_cast<int>(r_.products()) + (w_.scaled || promotes_ ? 1 : 0);
  }

  // The least number of registers per thread: a warpgroup has 64 columns and all rows.
  int64_t registers() const {
    return gpu_registers_with_copies(c_, copies_, tile_.threads(),
                                     sets_of_sums() * tile_.m * kWarpgroupRows / kWarpgroup);
  }

  // Packed weights have the same layout in memory and in shared memory; the activations' rows need
  // a tensor map.
  std::string choose_copies() {
    std::vector<std::string> ways = {kByRoles, kByThreads, kByCpAsync};
    if (store_ == kInBoxes) {
      ways.pop_back();
    } else if (!are_rows() || shared_bytes(k_, 2) > c_.input.target.gpu.shared_per_block) {
      return kByCpAsync;
    }
    return c_.t.choose(block_.name + ".copies", ways);
  }

  bool are_rows() {
    return gpu_row_vectors(c_, block_, r_).first * bits_of(w_.operand) == kAccessBits;
  }

  int64_t shared_bytes(int64_t k, int64_t stages) const {
    auto whole = [](int64_t bytes) { return round_up(bytes, kWgmmaAlign); };
    int64_t weight = whole(stages * tile_.n * w_.kept(k) * bits_of(w_.codes) / 8);
    if (w_.sparse) weight += whole(stages * tile_.n * w_.kept(k) * w_.sparse->index_bits / 8);
    constexpr int64_t kShared = 6, kPadding = 16;  // bytes of a column's scale and zero; of a row
    if (staged_scales_) weight += whole(stages * (tile_.n * kShared + 2 * kPadding)) + kWgmmaAlign;
    const int64_t bytes =
        whole(stages * tile_.m * k * bits_of(w_.operand) / 8) + r_.products() * weight;
    if (store_ == kDirect) return bytes;
    const int64_t of_result = bits_of(store_ == kSums ? w_.row.acc : result_elem_) / 8;
    return bytes + whole(tile_.m * (tile_.n * of_result + kPadding));
  }

  // Lengths of a tile along k: whole chunks, which divide a group. Promoted accumulators belong to
  // one tile.
  std::vector<int64_t> lengths() const {
    std::vector<int64_t> lengths;
    for (int64_t chunks : {2, 1, 4}) {
      const int64_t k = chunks * chunk_;
      const bool useful = k < 2 * w_.k || chunks == 1;
      const bool fits = chunks == 1 || shared_bytes(k, 2) <= c_.input.target.gpu.shared_per_block;
      const bool is_short = !promotes_ || k <= kPromotedTerms;
      if (w_.group % k == 0 && useful && fits && is_short && shares(chunks)) lengths.push_back(k);
    }
    return lengths;
  }

  // Whether all threads copy each of `chunks` chunks of activations evenly, as 16-byte vectors.
  bool shares(int64_t chunks) const {
    const int64_t pieces = tile_.m * chunk_ * bits_of(w_.operand) / 128;
    return chunks == 1 || pieces % tile_.threads() == 0 ||
           std::has_single_bit(static_cast<uint64_t>(pieces));
  }

  // The least stages with which one block of an SM keeps as much of the weight on its way as memory
  // delivers in the time that it takes to answer under load (Little's law). One more is multiplied.
  int64_t stages_in_flight() const {
    constexpr double kSecondsToAnswer = 1e-6;
    const GpuFacts& gpu = c_.input.target.gpu;
    const int64_t bits = r_.products() * tile_.n * w_.kept(k_) *
                         (bits_of(w_.codes) + (w_.sparse ? w_.sparse->index_bits : 0));
    const double wanted = gpu.bandwidth / gpu.sms * kSecondsToAnswer;
    return 1 + ceil_div(static_cast<int64_t>(8 * wanted), bits);
  }

  // Pipeline depths. The deepest one with which two blocks fit an SM comes first, if it is enough
  // to prefetch. If not, the first is the least with which one block waits for memory's rate alone,
  // or the deepest that there is.
  std::vector<int64_t> depths() const {
    const GpuFacts& gpu = c_.input.target.gpu;
    std::vector<int64_t> all = {6, 4, 3, 2, 1}, depths;
    if (gpu_copies_boxes(copies_)) all = {8, 6, 5, 4, 3, 2};
    for (int64_t stages : all) {
      if (stages == all.back() || shared_bytes(k_, stages) <= gpu.shared_per_block) {
        depths.push_back(stages);
      }
    }
    constexpr int64_t kLeastAhead = 3;
    const int64_t threads = gpu_threads_with_copies(c_, copies_, tile_.threads());
    const bool are_two = 2 * threads * registers() <= gpu.registers_per_sm;
    auto is_sound = [&](int64_t stages) {
      return are_two && stages >= kLeastAhead && 2 * shared_bytes(k_, stages) <= gpu.shared_per_sm;
    };
    auto first = std::find_if(depths.begin(), depths.end(), is_sound);
    if (first == depths.end()) {
      const int64_t least = stages_in_flight();
      first = std::partition_point(depths.begin(), depths.end(),
                                   [&](int64_t stages) { return stages >= least; });
      if (first != depths.begin()) --first;
    }
    std::rotate(depths.begin(), first, std::next(first));
    return depths;
  }

  // Makes the weight's elements in registers, in the order of the instruction, without scales. Its
  // codes, in the same order, are staged in shared memory and in registers.
  void pack(Product& p) {
    const WeightFormat& format = p.weight.format;
    const int rank = w_.rank(), column = format.column_dim, k = format.k_dims[0];
    if (p.weight.value) c_.s.compute_inline(*p.weight.value);
    p.elements = gpu_writer(c_.s, p.b);
    const std::string codes = w_.sparse ? compress(p) : format.weight;
    if (p.weight.value) c_.s.unscale(p.elements, w_.doubled ? ElemType::f32 : w_.operand);
    const int first = w_.doubled ? 1 : 0;  // offset of the weight's dimensions
    if (w_.doubled) c_.s.store_halves(p.elements, w_.operand);
    gpu_lay_out(c_, p.b, w_.row.a(), first + column, first + k);
    c_.s.prepack(codes, layout_.map(rank, column, k));
    p.shared = gpu_read_shared(c_, p.elements, gpu_codes_of(c_, p.elements, format));
    p.codes = c_.s.cache_read(p.elements, c_.s.output(p.shared)->name, Scope::Register);
  }

  // Leaves out the pattern's zeros, and brings a tile's metadata to registers. Returns the
  // parameter with the kept elements.
  std::string compress(Product& p) {
    const WeightFormat& format = p.weight.format;
    const int rank = 2, column = format.column_dim, k = format.k_dims[0];
    const std::vector<std::string> kept =
        c_.s.compress_operand(p.block, p.b, format.weight, w_.keep, w_.of, w_.vector);
    p.places.emplace(c_, p.block, kept[1],
                     metadata_map(*w_.sparse, rank, column, k, tile_.n, w_.kept(k_)), true);
    return kept[0];
  }

  // Loops i, j, k become: grid, k_outer (the mainloop), chunk, warp, instructions of a chunk, loops
  // inside an instruction. Each of four warps has 16 of the 64 columns that are operand A's rows.
  // Neighbouring blocks share the weight.
  void tile_loops(Product& p) {
    auto loop_of = [&](int iter) { return gpu_loop_of(c_.s, p.block, iter); };
    std::vector<Loop> i = c_.s.split(loop_of(r_.i), {-1, tile_.m});
    std::vector<Loop> j = c_.s.split(loop_of(r_.j), {-1, tile_.n / kWeightRows, kWeightRows});
    const int64_t terms = w_.terms();
    std::vector<Loop> k =
        c_.s.split(loop_of(r_.k), {-1, k_ / chunk_, chunk_ / terms, w_.kept(terms)});
    std::vector<Loop> grid, columns = {j[0]}, cluster;
    for (int b : r_.batch) grid.push_back(loop_of(b));
    if (cluster_.columns > 1) {
      const std::vector<Loop> pairs = c_.s.split(j[0], {-1, cluster_.columns});
      columns = {pairs[0]};
      cluster = {pairs[1]};
    }
    if (order_.group > 1) columns = c_.s.split(columns[0], {-1, order_.group});
    grid.insert(grid.end(), {columns[0], i[0]});
    grid.insert(grid.end(), columns.begin() + 1, columns.end());
    grid.insert(grid.end(), cluster.begin(), cluster.end());
    std::vector<Loop> order = grid;
    order.insert(order.end(), {k[0], k[1], j[1]});
    if (w_.doubled) {
      p.halves = Loop{Var(c_.s.node(p.block).iters.back().binding).name()};
      order.push_back(*p.halves);
    }
    order.insert(order.end(), {k[2], j[2], i[1], k[3]});
    c_.s.reorder(order);
    p.grid = gpu_fused(c_, grid);
    p.k_outer = k[0];
    p.k_chunk = k[1];
    p.warp = j[1];
    // Loops of one iteration disappear.
    p.marked = chunk_ > terms ? k[2] : j[2];
  }

  // Merges the products' loops: in each k iteration the products follow one another.
  void join_loops() {
    std::vector<GpuProductLoops> loops;
    for (const Product& p : products_) {
      loops.push_back({p.grid, p.k_outer, p.k_chunk, p.warp, p.marked});
    }
    gpu_merge_loops(c_, loops);
    grid_ = products_.front().grid;
    k_outer_ = products_.front().k_outer;
    for (Product& p : products_) p.k_outer = k_outer_;
  }

  // Places a tile of codes and the elements of a chunk that they become.
  void place_weight(Product& p, const GpuTileCopies& copies) {
    c_.s.compute_at(p.elements, p.k_chunk);
    gpu_unpack(c_, p.elements, p.codes, p.weight, layout_, 3, tile_.n / kWeightRows);
    c_.s.compute_at(p.shared, p.k_outer);
    if (p.places) p.places->place(p.k_outer, copies, tile_.n / tile_.warp_n);
  }

  // Applies a group's scales to the accumulators of a k tile, or column scales to those of all of
  // k.
  void scale_sums(Product& p) {
    const bool whole = w_.group == 0;
    std::vector<Block> made = c_.s.factor_scale(p.block, whole ? k_outer_ : p.k_chunk, w_.row.acc);
    c_.s.set_scope(c_.s.output(made[0])->name, Scope::Register);
    for (const Block& b : {made[1], p.block}) gpu_bind_packed_sums(c_, b, whole ? 1 : 2);
    if (whole) p.of_terms = made[0];
  }

  // Accumulates each tile on its own, then adds in f32: tensor cores add with fewer bits.
  // Accumulators of groups are separate already.
  void promote_sums(const Product& p) {
    if (w_.scaled && w_.group > 0) return;
    const Block sums = p.of_terms.value_or(p.block);
    gpu_sum_apart(c_, sums, p.k_chunk, w_.row.acc);
  }

  void finish_result() {
    if (store_ == kResults || store_ == kInBoxes) return finish_in_own_type();
    const bool through_shared = store_ == kSums;
    Block rows = last_;
    if (through_shared && is_joint()) {
      rows = c_.s.cache_write(last_, c_.s.output(last_)->name, Scope::Shared);
    }
    if (is_staged()) c_.s.reverse_compute_at(staged_, grid_);
    c_.s.reverse_compute_at(last_, grid_);
    if (!(rows == last_)) c_.s.reverse_compute_at(rows, grid_);
    // Bound now, while the program still shows what is private to a block.
    c_.s.bind(grid_, ForKind::BlockX);
    gpu_bind_packed_result(c_, is_staged() ? staged_ : last_, tile_.m, tile_.n);
    if (through_shared) gpu_store_packed_rows(c_, rows, tile_.threads());
  }

  void finish_in_own_type() {
    const Block copy = c_.s.cache_write(last_, c_.s.output(last_)->name, Scope::Shared);
    if (store_ == kInBoxes) gpu_lay_in_boxes(c_, last_, box_columns_);
    c_.s.reverse_compute_at(last_, grid_);
    c_.s.reverse_compute_at(copy, grid_);
    c_.s.bind(grid_, ForKind::BlockX);
    gpu_bind_packed_result(c_, last_, tile_.m, tile_.n);
    if (store_ == kInBoxes) {
      gpu_store_boxes(c_, copy, box_columns_);
    } else {
      gpu_store_packed_rows(c_, copy, tile_.threads(), kAccessBits / bits_of(result_elem_));
    }
  }

  // A chunk is unpacked while the previous one is multiplied. All groups of a tile are waited for
  // after it.
  void mark() {
    c_.s.annotate(grid_, kSharedRowsKey, std::string(kSwizzled));
    for (const Product& p : products_) {
      c_.s.annotate(p.marked, kMmaKey, std::string(row_->name));
      c_.s.bind(p.warp, ForKind::Warp);
      c_.s.unroll(p.k_chunk);
      if (p.halves) c_.s.unroll(*p.halves);
      c_.s.annotate(p.k_chunk, kWgmmaPendingKey, int64_t{1});
    }
    if (stages_ > 1) c_.s.annotate(k_outer_, kPipelineStagesKey, stages_);
    if (gpu_copies_boxes(copies_)) c_.s.annotate(k_outer_, kCopiesKey, copies_);
    gpu_mark_cluster(c_, cluster_, grid_);
    gpu_mark_tile_order(c_, order_, grid_);
    gpu_mark_grid(c_, blocks_, grid_, k_outer_);
  }

  RuleContext& c_;
  Block block_, last_, staged_;
  GpuRoles r_;
  Packable w_;
  int64_t chunk_;
  std::vector<Product> products_;
  const Instruction* row_ = nullptr;
  PackedTile tile_{};
  PackedLayout layout_{};
  int64_t k_ = 0, stages_ = 1;
  std::string copies_ = kByCpAsync;
  std::string store_ = kSums;
  ElemType result_elem_ = ElemType::f32;
  int64_t box_columns_ = 0;  // columns of a TMA tile of the result
  bool staged_scales_ = false;
  bool promotes_ = false;  // f32 promotion of 8-bit float accumulators
  GpuCluster cluster_;
  GpuTileOrder order_;
  GpuGrid blocks_;
  Loop grid_, k_outer_;
};

}  // namespace

void gpu_wgmma_packed_contraction(RuleContext& c, const Block& block, const GpuRoles& roles,
                                  const std::vector<Packable>& weights) {
  WgmmaPackedTiler(c, block, roles, weights).run();
}

}  // namespace tilewright
