#include "tuner/rules/gpu_wgmma_packed.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "codegen/cuda_lowering.h"
#include "codegen/cuda_mma.h"
#include "codegen/cuda_tensor_copy.h"
#include "codegen/cuda_wgmma_nest.h"
#include "codegen/sparse_wgmma_rows.h"
#include "codegen/tensor_sums.h"
#include "codegen/wgmma_rows.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu.h"
#include "tuner/rules/gpu_cluster.h"
#include "tuner/rules/gpu_grid.h"
#include "tuner/rules/gpu_grouped.h"
#include "tuner/rules/gpu_packed_layout.h"
#include "tuner/rules/gpu_packed_parts.h"
#include "tuner/rules/gpu_sparse.h"
#include "tuner/rules/gpu_tensor_copies.h"
#include "tuner/rules/gpu_tensor_parts.h"
#include "tuner/rules/gpu_tile_order.h"
#include "tuner/rules/gpu_tiles.h"
#include "tuner/rules/gpu_wgmma.h"

namespace tilewright {
namespace {

constexpr int64_t kSpanBytes = 128;  // of the widest swizzle
constexpr int64_t kCopyBits = 128;
// How results get to memory: their sums through shared memory, as lanes have them, or through shared memory
// in the result's own type, from where threads or boxes take them.
constexpr const char* kSums = "shared";
constexpr const char* kDirect = "direct";
constexpr const char* kResults = "shared_result";
constexpr const char* kInBoxes = "tensor";

// The row that takes the weight from registers and `n` rows of activations, one with a sparse operand for
// a weight without what that leaves out; null where there is none.
const WgmmaRow* row_for(const RuleContext& c, const Packable& w, int64_t n) {
  auto fits = [&](const WgmmaRow& row) {
    const MmaRow& types = row.warp;
    return types.operand == w.operand && types.b_operand() == w.operand && types.acc == w.row.acc &&
           !types.tf32 && row.n() == n && types.runs_on(c.input.target.gpu.compute_capability);
  };
  if (w.sparse) {
    for (const SparseWgmmaRow& row : sparse_wgmma_rows()) {
      if (fits(row.whole())) return &row.whole();
    }
    return nullptr;
  }
  for (const WgmmaRow& row : wgmma_rows()) {
    if (fits(row)) return &row;
  }
  return nullptr;
}

// Terms that are unpacked and multiplied as one group: those of a span of activations, or fewer where a
// scale serves fewer. 0 where not even those of an instruction, or of those that share metadata, are
// served by one.
int64_t chunk_for(const Packable& w) {
  int64_t terms = kSpanBytes * 8 / bits_of(w.operand);
  while (terms >= w.terms() && w.group % terms != 0) terms /= 2;
  return terms >= w.terms() ? terms : 0;
}

class WgmmaPackedTiler {
 public:
  WgmmaPackedTiler(RuleContext& c, Block block, GpuRoles roles, Packable weight)
      : c_(c), block_(std::move(block)), r_(std::move(roles)), w_(std::move(weight)),
        format_(w_.format), chunk_(chunk_for(w_)) {}

  void run() {
    choose();
    const int64_t a_row = gpu_row_vectors(c_, block_, r_).first;
    gpu_stage_operands(c_, block_, r_, tile_.m, tile_.n, k_, Scope::Register);
    // Activations by chunks, each as the instruction reads it: rows of a swizzle's span.
    if (k_ > chunk_) gpu_lay_terms_in_spans(c_, r_.a, chunk_);
    pack();
    last_ = gpu_place_result(c_, block_);
    if (store_ == kSums) {
      staged_ = c_.s.cache_read(last_, store_of(node()).buffer->name, Scope::Shared);
    }
    gpu_lay_out_packed_sums(c_, block_);
    tile_loops();
    c_.s.compute_at(gpu_writer(c_.s, r_.a), k_outer_);
    c_.s.compute_at(elements_, k_chunk_);
    unpack();
    c_.s.compute_at(shared_, k_outer_);
    const GpuTileCopies copies{copies_, tile_.threads()};
    if (places_) places_->place(k_outer_, copies, tile_.n / tile_.warp_n);
    Block init = c_.s.decompose_reduction(block_, k_outer_);
    gpu_bind_packed_sums(c_, init, 1);
    if (w_.scaled) scale_sums();
    if (promotes_) promote_sums();
    if (staged_scales_) {
      gpu_stage_scales(c_, {elements_, block_}, format_, k_outer_, copies);
    }
    finish_result();
    copies.carry_out(c_, r_.a, a_row);
    copies.carry_out(c_, store_of(c_.s.node(shared_)).buffer->name, 128 / bits_of(w_.codes));
    mark();
  }

 private:
  const BlockNode& node() { return c_.s.node(block_); }
  int64_t extent(int iter) {
    return largest_extent(c_.s, node().iters[static_cast<size_t>(iter)].extent);
  }

  void choose() {
    const bool of_groups = w_.scaled && w_.group > 0;
    promotes_ = gpu_promotes(c_, block_, w_.operand, of_groups ? w_.group : extent(r_.k));
    const int sets = w_.scaled || promotes_ ? 2 : 1;  // those of a group besides
    std::vector<PackedTile> tiles =
        wgmma_packed_tiles_for(extent(r_.i), extent(r_.j), sets, c_.input.target.gpu);
    std::erase_if(tiles, [&](const PackedTile& t) { return !row_for(c_, w_, t.m); });
    std::vector<std::string> names;
    for (const PackedTile& t : tiles) names.push_back(t.name());
    const std::string name = c_.t.choose(block_.name + ".tile", names);
    for (const PackedTile& t : tiles) {
      if (t.name() == name) tile_ = t;
    }
    row_ = row_for(c_, w_, tile_.m);
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

  // Rounding on the way to shared memory or behind it is the same. What is stored by boxes is copied so,
  // too.
  std::vector<std::string> ways_to_store() {
    // Of rows that are known at launch alone there may be less than a tile to take over; rows that are
    // shorter than a tile are shared out unevenly.
    const Expr& rows = node().iters[static_cast<size_t>(r_.i)].extent;
    if (!as_int(rows) || extent(r_.j) < tile_.n) return {kDirect};
    std::vector<std::string> ways = {kSums, kDirect};
    result_elem_ = gpu_result_elem(c_, block_);
    if (bits_of(result_elem_) < bits_of(w_.row.acc)) ways.emplace_back(kResults);
    box_columns_ = gpu_box_columns(c_, block_, {tile_.m, tile_.n, k_, tile_.m, tile_.n},
                                   node().iters[static_cast<size_t>(r_.j)].extent);
    if (box_columns_ > 0 && are_rows()) ways.emplace_back(kInBoxes);
    return ways;
  }

  // That of the product as it is computed: its rows are the weight's columns.
  void choose_order() {
    if (!as_int(node().iters[static_cast<size_t>(r_.i)].extent)) return;
    const int64_t rows = (extent(r_.j) + tile_.n - 1) / tile_.n / cluster_.columns;
    const int64_t columns = (extent(r_.i) + tile_.m - 1) / tile_.m;
    order_ = gpu_choose_tile_order(c_, block_.name, {cluster_.columns, 1}, rows, columns);
  }

  // Blocks of neighbouring columns have the activations' boxes in common, each of which is cut into
  // parts of whole swizzle patterns. The weight has no tile beyond its columns.
  void choose_cluster() {
    constexpr int64_t kPair = 2, kPatternBytes = 1024;
    const int64_t box = tile_.m * chunk_ * bits_of(w_.operand) / 8;
    const int64_t columns = (extent(r_.j) + tile_.n - 1) / tile_.n;
    if (box % (kPair * kPatternBytes) != 0 || columns % kPair != 0) return;
    cluster_ = gpu_choose_cluster(c_, block_.name, copies_, 1, columns);
  }

  void choose_grid() {
    auto count = [](int64_t size, int64_t tile) { return (size + tile - 1) / tile; };
    int64_t tiles = count(extent(r_.i), tile_.m) * count(extent(r_.j), tile_.n);
    for (int b : r_.batch) tiles *= extent(b);
    // Scales of whole columns are applied to sums of their own.
    const bool scales_behind = w_.scaled && w_.group == 0;
    blocks_ =
        gpu_choose_grid(c_, block_.name,
                        {tiles, count(w_.k, k_), shared_bytes(k_, stages_),
                         gpu_threads_with_copies(c_, copies_, tile_.threads()),
                         !scales_behind && !order_.is_curve(), cluster_.blocks(), registers()});
  }

  // Of a thread at least: a warpgroup has 64 columns beside all rows.
  int64_t registers() const {
    const int64_t sums = (w_.scaled || promotes_ ? 2 : 1) * tile_.m * WgmmaRow::m / kWarpgroup;
    return gpu_registers_with_copies(c_, copies_, tile_.threads(), sums);
  }

  // What is packed lies in memory as in shared memory; the activations' rows are those of a map.
  std::string choose_copies() {
    std::vector<std::string> ways = {kByRoles, kByThreads, kByCpAsync};
    if (store_ == kInBoxes) {
      ways.pop_back();
    } else if (!are_rows() || shared_bytes(k_, 2) > c_.input.target.gpu.shared_per_block) {
      return kByCpAsync;
    }
    return c_.t.choose_added(block_.name + ".copies", ways, kByCpAsync);
  }

  bool are_rows() {
    return gpu_row_vectors(c_, block_, r_).first * bits_of(w_.operand) == kCopyBits;
  }

  int64_t shared_bytes(int64_t k, int64_t stages) const {
    auto whole = [](int64_t bytes) {
      return (bytes + kWgmmaAlign - 1) / kWgmmaAlign * kWgmmaAlign;
    };
    int64_t bytes = whole(stages * tile_.m * k * bits_of(w_.operand) / 8) +
                    whole(stages * tile_.n * w_.kept(k) * bits_of(w_.codes) / 8);
    if (w_.sparse) bytes += whole(stages * tile_.n * w_.kept(k) * w_.sparse->index_bits / 8);
    constexpr int64_t kShared = 6, kPadding = 16;  // bytes of a column's scale and zero, of a row
    if (staged_scales_) bytes += whole(stages * (tile_.n * kShared + 2 * kPadding)) + kWgmmaAlign;
    if (store_ == kDirect) return bytes;
    const int64_t of_result = bits_of(store_ == kSums ? w_.row.acc : result_elem_) / 8;
    return bytes + whole(tile_.m * (tile_.n * of_result + kPadding));
  }

  // Lengths of a tile along k: whole chunks, of which a group has whole tiles. Sums that are promoted are
  // those of a tile.
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

  // Whether all threads copy each of so many chunks of activations evenly, 16 bytes each.
  bool shares(int64_t chunks) const {
    const int64_t pieces = tile_.m * chunk_ * bits_of(w_.operand) / 128;
    return chunks == 1 || pieces % tile_.threads() == 0 ||
           std::has_single_bit(static_cast<uint64_t>(pieces));
  }

  // Stages of the pipeline: the most first with which two blocks fit a multiprocessor, if those are enough
  // to run ahead; else as many of one block as bring what is wanted next while it multiplies.
  std::vector<int64_t> depths() const {
    const GpuFacts& gpu = c_.input.target.gpu;
    std::vector<int64_t> all = {6, 4, 3, 2, 1}, depths;
    if (gpu_copies_boxes(copies_)) all = {8, 6, 5, 4, 3, 2};
    for (int64_t stages : all) {
      if (stages == all.back() || shared_bytes(k_, stages) <= gpu.shared_per_block) {
        depths.push_back(stages);
      }
    }
    constexpr int64_t kLeastAhead = 3, kOfOne = 4;
    const int64_t threads = gpu_threads_with_copies(c_, copies_, tile_.threads());
    const bool are_two = 2 * threads * registers() <= gpu.registers_per_sm;
    auto is_sound = [&](int64_t stages) {
      return are_two && stages >= kLeastAhead && 2 * shared_bytes(k_, stages) <= gpu.shared_per_sm;
    };
    auto first = std::find_if(depths.begin(), depths.end(), is_sound);
    if (first == depths.end()) {
      first = std::find_if(depths.begin(), depths.end(), [](int64_t n) { return n <= kOfOne; });
    }
    if (first != depths.end()) std::rotate(depths.begin(), first, std::next(first));
    return depths;
  }

  // The weight's elements in registers, in the order of the instruction, without scales; its codes
  // in the same order, in shared memory and in registers on their way.
  void pack() {
    const int rank = w_.rank(), column = format_.column_dim, k = format_.k_dims[0];
    if (w_.value) c_.s.compute_inline(*w_.value);
    elements_ = gpu_writer(c_.s, r_.b);
    const std::string codes = w_.sparse ? compress() : format_.weight;
    if (w_.value) c_.s.unscale(elements_, w_.doubled ? ElemType::f32 : w_.operand);
    const int first = w_.doubled ? 1 : 0;  // of the weight's dimensions
    if (w_.doubled) c_.s.store_halves(elements_, w_.operand);
    c_.s.transform_layout(r_.b, fragment_map(w_.row, first + rank, first + column, first + k));
    c_.s.prepack(codes, layout_.map(rank, column, k));
    shared_ = gpu_read_shared(c_, elements_, gpu_codes_of(c_, elements_, format_));
    codes_ = c_.s.cache_read(elements_, store_of(c_.s.node(shared_)).buffer->name, Scope::Register);
  }

  // Leaves out what the pattern does, and brings metadata for a tile's terms to registers; the parameter
  // that has the rest.
  std::string compress() {
    const int rank = 2, column = format_.column_dim, k = format_.k_dims[0];
    const std::vector<std::string> kept =
        c_.s.compress_operand(block_, r_.b, format_.weight, w_.keep, w_.of, w_.vector);
    places_.emplace(c_, block_, kept[1],
                    metadata_map(*w_.sparse, rank, column, k, tile_.n, w_.kept(k_)), true);
    return kept[0];
  }

  // i, j, k -> grid, k_outer, chunk, warp, instructions of a chunk, and in one of them. Of four warps
  // each has 16 of the 64 columns that are its rows. Neighbouring blocks share the weight.
  void tile_loops() {
    auto loop_of = [&](int iter) { return gpu_loop_of(c_.s, block_, iter); };
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
      halves_ = Loop{Var(node().iters.back().binding).name()};
      order.push_back(*halves_);
    }
    order.insert(order.end(), {k[2], j[2], i[1], k[3]});
    c_.s.reorder(order);
    grid_ = gpu_fused(c_, grid);
    k_outer_ = k[0];
    k_chunk_ = k[1];
    warp_ = j[1];
    // Loops of one iteration do not last.
    marked_ = chunk_ > terms ? k[2] : j[2];
  }

  // The codes of a chunk become the elements of the thread that multiplies them.
  void unpack() {
    std::vector<Loop> loops = c_.s.loops(elements_);
    const bool by_k = format_.k_dims[0] < format_.column_dim;
    const Loop along_n = by_k ? loops.back() : loops.end()[-2];
    const Loop along_k = by_k ? loops.end()[-2] : loops.back();
    std::vector<Loop> n = c_.s.split(along_n, {tile_.n / kWeightRows, 2, 8});
    std::vector<Loop> k = c_.s.split(along_k, {w_.kept(chunk_) / (layout_.fragments * w_.row.k),
                                               layout_.fragments, 2, 4, int64_t{w_.row.packed()}});
    std::vector<Loop> own = {k[0], k[1], k[2], n[1]};
    std::vector<Loop> order;
    if (w_.doubled) {  // both of one code; loops over stacks stay outside
      own.push_back(loops[3]);
      order.assign(loops.begin() + 4, loops.end() - 2);
    }
    order.insert(order.end(), {n[0], n[2], k[3]});
    order.insert(order.end(), own.begin(), own.end());
    order.push_back(k[4]);
    c_.s.reorder(order);
    c_.s.bind(c_.s.fuse({n[0], n[2], k[3]}), ForKind::ThreadX);
    c_.s.compute_at(codes_, k[0]);
    for (const Loop& l : own) c_.s.unroll(l);
    c_.s.vectorize(k[4]);
    c_.s.vectorize(c_.s.loops(codes_).back());
  }

  // The scales of a group on the sums of a tile of k, or of all of it.
  void scale_sums() {
    const bool whole = w_.group == 0;
    std::vector<Block> made = c_.s.factor_scale(block_, whole ? k_outer_ : k_chunk_, w_.row.acc);
    c_.s.set_scope(store_of(c_.s.node(made[0])).buffer->name, Scope::Register);
    for (const Block& b : {made[1], block_}) gpu_bind_packed_sums(c_, b, whole ? 1 : 2);
    if (whole) of_terms_ = made[0];
  }

  // Each tile's sums by themselves, then added up in f32: tensor cores add with fewer bits. Those of a
  // group are so already.
  void promote_sums() {
    if (w_.scaled && w_.group > 0) return;
    const Block sums = of_terms_.value_or(block_);
    gpu_sum_apart(c_, sums, k_chunk_, w_.row.acc);
  }

  void finish_result() {
    if (store_ == kResults || store_ == kInBoxes) return finish_in_own_type();
    if (store_ == kSums) c_.s.reverse_compute_at(staged_, grid_);
    c_.s.reverse_compute_at(last_, grid_);
    // Now, while it shows what a block leaves for itself.
    c_.s.bind(grid_, ForKind::BlockX);
    gpu_bind_packed_result(c_, store_ == kSums ? staged_ : last_, tile_.m, tile_.n);
    if (store_ == kSums) gpu_store_packed_rows(c_, last_, tile_.threads());
  }

  void finish_in_own_type() {
    const Block copy =
        c_.s.cache_write(last_, store_of(c_.s.node(last_)).buffer->name, Scope::Shared);
    if (store_ == kInBoxes) gpu_lay_in_boxes(c_, last_, box_columns_);
    c_.s.reverse_compute_at(last_, grid_);
    c_.s.reverse_compute_at(copy, grid_);
    c_.s.bind(grid_, ForKind::BlockX);
    gpu_bind_packed_result(c_, last_, tile_.m, tile_.n);
    if (store_ == kInBoxes) {
      gpu_store_boxes(c_, copy, box_columns_);
    } else {
      gpu_store_packed_rows(c_, copy, tile_.threads(), kCopyBits / bits_of(result_elem_));
    }
  }

  // A chunk is unpacked while the one before is multiplied; all of a tile are waited for behind it.
  void mark() {
    c_.s.annotate(marked_, kMmaKey, std::string(row_->warp.name));
    c_.s.annotate(grid_, kSharedRowsKey, std::string(kSwizzled));
    c_.s.bind(warp_, ForKind::Warp);
    c_.s.unroll(k_chunk_);
    if (halves_) c_.s.unroll(*halves_);
    c_.s.annotate(k_chunk_, kWgmmaPendingKey, int64_t{1});
    if (stages_ > 1) c_.s.annotate(k_outer_, "pipeline_stages", stages_);
    if (gpu_copies_boxes(copies_)) c_.s.annotate(k_outer_, kCopiesKey, copies_);
    gpu_mark_cluster(c_, cluster_, grid_);
    gpu_mark_tile_order(c_, order_, grid_);
    gpu_mark_grid(c_, blocks_, grid_, k_outer_);
  }

  RuleContext& c_;
  Block block_, last_, staged_;
  GpuRoles r_;
  Packable w_;
  const WeightFormat& format_;
  int64_t chunk_;
  const WgmmaRow* row_ = nullptr;
  PackedTile tile_{};
  PackedLayout layout_{};
  int64_t k_ = 0, stages_ = 1;
  std::string copies_ = kByCpAsync;
  std::string store_ = kSums;
  ElemType result_elem_ = ElemType::f32;
  int64_t box_columns_ = 0;  // of results that are stored as boxes
  bool staged_scales_ = false;
  bool promotes_ = false;          // sums of 8-bit floats
  std::optional<Block> of_terms_;  // what is summed over all of k, where that is scaled behind it
  Block elements_, shared_, codes_;
  std::optional<GpuPlaces> places_;  // metadata of a sparse weight
  GpuCluster cluster_;
  GpuTileOrder order_;
  GpuGrid blocks_;
  Loop grid_, k_outer_, k_chunk_, warp_, marked_;
  std::optional<Loop> halves_;  // over the two elements of a code that no single one holds
};

}  // namespace

std::string gpu_wgmma_packed_way(RuleContext& c, const Block& block, const GpuRoles& roles,
                                 const Packable& weight) {
  constexpr int64_t kRows = 8;  // up to here instructions of warps have no padding either
  constexpr int kAnyRows = 64;
  const BlockNode& n = c.s.node(block);
  auto most = [&](int iter) {
    return largest_extent(c.s, n.iters[static_cast<size_t>(iter)].extent);
  };
  const bool is_many = most(roles.i) > kRows && most(roles.j) >= WgmmaRow::m;
  if (!is_many || weight.gathers() || chunk_for(weight) == 0) return "";
  const WgmmaRow* row = row_for(c, weight, kAnyRows);
  if (!row) return "";
  const std::string name(row->warp.name);
  const std::string types = name.substr(name.find('_', name.find('m')));
  return (weight.sparse ? "wgmma_sp" : "wgmma") + types;
}

void gpu_wgmma_packed_contraction(RuleContext& c, const Block& block, const GpuRoles& roles,
                                  const Packable& weight) {
  WgmmaPackedTiler(c, block, roles, weight).run();
}

}  // namespace tilewright
