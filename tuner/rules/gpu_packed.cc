#include "tuner/rules/gpu_packed.h"

#include <algorithm>
#include <bit>

#include "codegen/cuda_mma.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu.h"
#include "tuner/rules/gpu_gemv.h"
#include "tuner/rules/gpu_grid.h"
#include "tuner/rules/gpu_grouped.h"
#include "tuner/rules/gpu_packable.h"
#include "tuner/rules/gpu_packed_layout.h"
#include "tuner/rules/gpu_packed_parts.h"
#include "tuner/rules/gpu_sparse.h"
#include "tuner/rules/gpu_tensor_copies.h"
#include "tuner/rules/gpu_tiles.h"
#include "tuner/rules/gpu_wgmma_packed.h"

namespace tilewright {
namespace {

class PackedTiler {
 public:
  PackedTiler(RuleContext& c, Block block, GpuRoles roles, Packable weight)
      : c_(c), block_(std::move(block)), r_(std::move(roles)), w_(std::move(weight)), row_(w_.row),
        format_(w_.format) {}

  void run() {
    choose();
    const bool pads = pads_rows_or_terms();
    if (transposed_ == "ahead" && !pads) transpose_ahead();
    int64_t a_row = gpu_row_vectors(c_, block_, r_).first;
    gpu_stage_operands(c_, block_, r_, tile_.m, tile_.n, k_, Scope::Register);
    if (transposed_ == "ahead" && pads) a_row = transpose_padded();
    if (transposed_ == "tile") lay_by_terms(r_.a);
    pack();
    last_ = gpu_place_result(c_, block_);
    if (through_shared_) {
      staged_ = c_.s.cache_read(last_, store_of(node()).buffer->name, Scope::Shared);
    }
    gpu_lay_out_packed_sums(c_, block_);
    tile_loops();
    c_.s.compute_at(gpu_writer(c_.s, r_.a), k_outer_);
    c_.s.compute_at(elements_, k_outer_);
    unpack();
    c_.s.compute_at(shared_, k_outer_);
    const GpuTileCopies copies{kByCpAsync, tile_.threads()};
    if (places_) places_->place(k_outer_, copies, tile_.n / tile_.warp_n);
    Block init = c_.s.decompose_reduction(block_, k_outer_);
    bind_sums(init, 1);
    if (w_.scaled) scale_sums();
    if (staged_scales_) {
      gpu_stage_scales(c_, {elements_, block_}, format_, k_outer_, copies);
    }
    finish_result();
    copies.carry_out(c_, r_.a, a_row);
    copies.carry_out(c_, store_of(c_.s.node(shared_)).buffer->name, 128 / bits_of(w_.codes));
    c_.s.annotate(marked_, kMmaKey, std::string(w_.sparse ? w_.sparse->whole.name : row_.name));
    c_.s.bind(warp_, ForKind::Warp);
    if (stages_ > 1) c_.s.annotate(k_outer_, "pipeline_stages", stages_);
    c_.s.bind(grid_, ForKind::BlockX);
    gpu_mark_grid(c_, blocks_, grid_, k_outer_);
  }

 private:
  const BlockNode& node() { return c_.s.node(block_); }
  int64_t extent(int iter) {
    return largest_extent(c_.s, node().iters[static_cast<size_t>(iter)].extent);
  }

  void choose() {
    std::vector<PackedTile> tiles =
        packed_tiles_for(extent(r_.i), extent(r_.j), c_.input.target.gpu);
    // The columns of a warp share their rows. Less is multiplied for what is read of the activations:
    // better by warps that read them for more columns.
    if (w_.gathers()) {
      std::erase_if(tiles, [&](const PackedTile& t) { return w_.vector % t.warp_n != 0; });
    }
    if (w_.is_compressed() && extent(r_.i) > kFewRows) {
      std::stable_partition(tiles.begin(), tiles.end(),
                            [](const PackedTile& t) { return t.warp_n > kWeightRows; });
    }
    std::vector<std::string> names;
    for (const PackedTile& t : tiles) names.push_back(t.name());
    std::string name = c_.t.choose(block_.name + ".tile", names);
    for (const PackedTile& t : tiles) {
      if (t.name() == name) tile_ = t;
    }
    if (w_.gathers()) choose_transposition();
    // A thread has single elements of a column, which memory wants by rows: worth a way around where
    // the result is small beside the weight.
    const int64_t rows = extent(r_.i);
    std::vector<std::string> ways = {"shared"};
    if (rows > 1) ways.insert(rows > kFewRows ? ways.begin() : ways.end(), "direct");
    // Of rows that are known at launch alone there may be less than a tile to take over.
    const bool dynamic = !as_int(node().iters[static_cast<size_t>(r_.i)].extent);
    if (dynamic || is_cut_unevenly()) ways = {"direct"};
    through_shared_ = c_.t.choose(block_.name + ".store", ways) == "shared";
    staged_scales_ =
        gpu_may_stage_scales(c_, w_, extent(r_.j), tile_.n) &&
        c_.t.choose_added(block_.name + ".scales", {"staged", "direct"}, "direct") == "staged";
    k_ = c_.t.choose(block_.name + ".k", lengths());
    stages_ = c_.t.choose(block_.name + ".stages", depths());
    layout_ = packed_layout(tile_.n, w_.kept(k_), bits_of(w_.codes), row_);
    choose_grid();
  }

  void choose_grid() {
    auto count = [](int64_t size, int64_t tile) { return (size + tile - 1) / tile; };
    int64_t tiles = count(extent(r_.i), tile_.m) * count(extent(r_.j), tile_.n);
    for (int b : r_.batch) tiles *= extent(b);
    // Scales of whole columns are applied to sums of their own.
    const bool scales_behind = w_.scaled && w_.group == 0;
    blocks_ = gpu_choose_grid(
        c_, block_.name,
        {tiles, count(w_.k, k_), shared_bytes(k_, stages_), tile_.threads(), !scales_behind});
  }

  // Whether tiles are wider than the result and stand one above another: threads that share what is
  // left of a row then take over rows of two tiles.
  bool is_cut_unevenly() {
    const int64_t columns = extent(r_.j);
    return columns < tile_.n && extent(r_.i) > tile_.m &&
           !std::has_single_bit(static_cast<uint64_t>(columns));
  }

  // Terms that are looked up by their places are rows of the activations' tile. These are brought into
  // that form by a kernel of its own, or on the way to shared memory.
  void choose_transposition() {
    if (plain_iterator(node(), indices_of(node(), r_.a).back()) == r_.i) return;
    transposed_ = c_.t.choose(block_.name + "." + r_.a + ".transposed",
                              std::vector<std::string>{"ahead", "tile"});
  }

  void transpose_ahead() {
    r_.a = store_of(c_.s.node(c_.s.cache_read(block_, r_.a, Scope::Global))).buffer->name;
    lay_by_terms(r_.a);
  }

  // Whether the activations' tiles hang over the end of rows, or of as many rows as there will be.
  bool pads_rows_or_terms() {
    auto rows = as_int(node().iters[static_cast<size_t>(r_.i)].extent);
    return !rows || *rows % tile_.m != 0 || w_.k % k_ != 0;
  }

  // The same with the padding, tile by tile: what the product copies begins at multiples of 16 bytes
  // and asks no condition, however many rows there are. Neighbours of a copy that are read at once.
  int64_t transpose_padded() {
    c_.s.set_scope(r_.a, Scope::Global);
    const int64_t rows = tile_.m;
    c_.s.transform_layout(
        r_.a, IndexMap::make(2, [&](const std::vector<Var>& x) {
          return std::vector<Expr>{floordiv(x[0], rows), x[1], floormod(x[0], rows)};
        }));
    r_.a = store_of(c_.s.node(c_.s.cache_read(block_, r_.a, Scope::Shared))).buffer->name;
    return 128 / bits_of(w_.operand);
  }

  void lay_by_terms(const std::string& operand) {
    c_.s.transform_layout(operand, IndexMap::make(2, [](const std::vector<Var>& x) {
                            return std::vector<Expr>{x[1], x[0]};
                          }));
  }

  int64_t shared_bytes(int64_t k, int64_t stages) const {
    const int64_t padding = 16;
    const int64_t bits = bits_of(w_.codes) + (w_.sparse ? w_.sparse->index_bits : 0);
    int64_t stage =
        tile_.m * (k * bits_of(w_.operand) / 8 + padding) + tile_.n * w_.kept(k) * bits / 8;
    if (staged_scales_) stage += 2 * 128 + tile_.n * 6;
    int64_t result = through_shared_ ? tile_.m * (tile_.n * 4 + padding) : 0;
    return stage * stages + result;
  }

  // Lengths of a tile along k, of which two at least fit into shared memory.
  std::vector<int64_t> lengths() const {
    std::vector<int64_t> lengths = packed_lengths_for(w_, tile_.m);
    std::erase_if(lengths, [&](int64_t k) {
      return k > w_.terms() && shared_bytes(k, 2) > c_.input.target.gpu.shared_per_block;
    });
    return lengths;
  }

  // Stages of the pipeline: the most first with which two blocks fit a multiprocessor.
  std::vector<int64_t> depths() const {
    std::vector<int64_t> depths;
    const GpuFacts& gpu = c_.input.target.gpu;
    for (int64_t stages : {6, 4, 3, 2, 1}) {
      if (shared_bytes(k_, stages) <= gpu.shared_per_block) depths.push_back(stages);
    }
    if (depths.empty()) depths.push_back(1);
    auto first = std::find_if(depths.begin(), depths.end(), [&](int64_t stages) {
      return 2 * shared_bytes(k_, stages) <= gpu.shared_per_sm;
    });
    if (first != depths.end()) std::rotate(depths.begin(), first, std::next(first));
    return depths;
  }

  // The weight's elements in registers, in the order of the instruction, without scales; its codes
  // in the same order, in shared memory and in registers on their way.
  void pack() {
    const int rank = w_.rank(), column = format_.column_dim, k = format_.k_dims[0];
    if (w_.value) c_.s.compute_inline(*w_.value);
    elements_ = gpu_writer(c_.s, r_.b);
    std::string codes = format_.weight;
    if (w_.is_compressed()) codes = compress();
    if (w_.value) c_.s.unscale(elements_, w_.doubled ? ElemType::f32 : w_.operand);
    const int first = w_.doubled ? 1 : 0;  // of the weight's dimensions
    if (w_.doubled) c_.s.store_halves(elements_, w_.operand);
    c_.s.transform_layout(r_.b, fragment_map(row_, first + rank, first + column, first + k));
    c_.s.prepack(codes, layout_.map(rank, column, k));
    shared_ = gpu_read_shared(c_, elements_, gpu_codes_of(c_, elements_, format_));
    codes_ = c_.s.cache_read(elements_, store_of(c_.s.node(shared_)).buffer->name, Scope::Register);
  }

  // Leaves out what the pattern does; the parameter that has the rest.
  std::string compress() {
    const int rank = 2, column = format_.column_dim, k = format_.k_dims[0];
    const int64_t tile_r = w_.kept(k_);
    std::vector<std::string> kept =
        c_.s.compress_operand(block_, r_.b, format_.weight, w_.keep, w_.of, w_.vector);
    IndexMap map = w_.sparse ? metadata_map(*w_.sparse, rank, column, k, tile_.n, tile_r)
                             : places_map(rank, column, k, w_.vector, tile_.n, tile_r);
    places_.emplace(c_, block_, kept[1], map, w_.sparse != nullptr);
    return kept[0];
  }

  // i, j, k -> grid, k_outer, warp, k, fragments of the weight, of the other operand, and in an
  // instruction. Neighbouring blocks share the weight.
  void tile_loops() {
    auto loop_of = [&](int iter) { return gpu_loop_of(c_.s, block_, iter); };
    std::vector<Loop> i = c_.s.split(loop_of(r_.i), {-1, tile_.m / 8, 8});
    std::vector<Loop> j = c_.s.split(
        loop_of(r_.j), {-1, tile_.n / tile_.warp_n, tile_.warp_n / kWeightRows, kWeightRows});
    std::vector<Loop> k = c_.s.split(loop_of(r_.k), {-1, k_ / w_.terms(), w_.kept(w_.terms())});
    std::vector<Loop> grid;
    for (int b : r_.batch) grid.push_back(loop_of(b));
    grid.insert(grid.end(), {j[0], i[0]});
    std::vector<Loop> order = grid;
    order.insert(order.end(), {k[0], j[1], k[1]});
    if (w_.doubled) order.push_back(Loop{Var(node().iters.back().binding).name()});
    order.insert(order.end(), {j[2], i[1], j[3], i[2], k[2]});
    c_.s.reorder(order);
    grid_ = gpu_fused(c_, grid);
    k_outer_ = k[0];
    warp_ = j[1];
    // Loops of one iteration do not last.
    marked_ = tile_.warp_n > kWeightRows ? j[2] : tile_.m > 8 ? i[1] : j[3];
  }

  // Codes become the elements of the thread that multiplies them.
  void unpack() {
    std::vector<Loop> loops = c_.s.loops(elements_);
    const bool by_k = format_.k_dims[0] < format_.column_dim;
    const Loop along_n = by_k ? loops.back() : loops.end()[-2];
    const Loop along_k = by_k ? loops.end()[-2] : loops.back();
    const int64_t packed = row_.packed();
    std::vector<Loop> n =
        c_.s.split(along_n, {tile_.n / tile_.warp_n, tile_.warp_n / kWeightRows, 2, 8});
    std::vector<Loop> k = c_.s.split(
        along_k, {w_.kept(k_) / (layout_.fragments * row_.k), layout_.fragments, 2, 4, packed});
    std::vector<Loop> own = {n[1], k[0], k[1], k[2], n[2]};
    std::vector<Loop> order;
    if (w_.doubled) {  // both of one code; loops over stacks stay outside
      own.push_back(loops[2]);
      order.assign(loops.begin() + 3, loops.end() - 2);
    }
    order.insert(order.end(), {n[0], n[3], k[3]});
    order.insert(order.end(), own.begin(), own.end());
    order.push_back(k[4]);
    c_.s.reorder(order);
    c_.s.bind(c_.s.fuse({n[0], n[3], k[3]}), ForKind::ThreadX);
    c_.s.compute_at(codes_, k[0]);
    for (const Loop& l : own) c_.s.unroll(l);
    c_.s.vectorize(k[4]);
    c_.s.vectorize(c_.s.loops(codes_).back());
  }

  // The loops of a block over all sums, under the first `around` of its loops.
  void bind_sums(const Block& block, size_t around) {
    std::vector<Loop> loops = c_.s.loops(block);
    loops.erase(loops.begin(), loops.begin() + static_cast<long>(around));
    gpu_bind_packed_lanes(c_, loops[0], {loops.begin() + 1, loops.end() - 2},
                          loops[loops.size() - 2], loops.back());
  }

  // The scales of a group on the sums of a tile of k, or of all of it.
  void scale_sums() {
    const bool whole = w_.group == 0;
    std::vector<Block> made = c_.s.factor_scale(block_, whole ? k_outer_ : warp_, row_.acc);
    c_.s.set_scope(store_of(c_.s.node(made[0])).buffer->name, Scope::Register);
    for (const Block& b : {made[1], block_}) bind_sums(b, whole ? 1 : 2);
  }

  // A block over the tile of the result, whose last loops are rows and columns, by the threads that
  // have its sums.
  void bind_result(const Block& block) {
    std::vector<Loop> loops = c_.s.loops(block);
    std::vector<Loop> i = c_.s.split(loops[loops.size() - 2], {tile_.m / 8, 8});
    std::vector<Loop> j =
        c_.s.split(loops.back(), {tile_.n / tile_.warp_n, tile_.warp_n / kWeightRows, kWeightRows});
    c_.s.reorder({j[0], j[1], i[0], j[2], i[1]});
    gpu_bind_packed_lanes(c_, j[0], {j[1], i[0]}, j[2], i[1]);
  }

  void finish_result() {
    if (through_shared_) c_.s.reverse_compute_at(staged_, grid_);
    c_.s.reverse_compute_at(last_, grid_);
    bind_result(through_shared_ ? staged_ : last_);
    if (through_shared_) gpu_store_packed_rows(c_, last_, tile_.threads());
  }

  RuleContext& c_;
  Block block_, last_, staged_;
  GpuRoles r_;
  Packable w_;
  const MmaRow& row_;
  const WeightFormat& format_;
  PackedTile tile_{};
  PackedLayout layout_{};
  int64_t k_ = 0, stages_ = 1;
  bool through_shared_ = true, staged_scales_ = false;
  std::string transposed_;  // how the activations become rows of terms; empty where they need not
  Block elements_, shared_, codes_;
  std::optional<GpuPlaces> places_;
  GpuGrid blocks_;
  Loop grid_, k_outer_, warp_, marked_;
};

}  // namespace

namespace {

// A weight of elements as instructions take them.
bool pack_plain(RuleContext& c, const Block& block, GpuRoles& roles) {
  std::optional<Packable> weight = packable_as_it_is(c, block, roles);
  if (!weight) return false;
  const std::string layout = c.t.choose_added(block.name + "." + weight->format.weight + ".layout",
                                              {"none", "tiles", "ldmatrix", "fragments"}, "none");
  if (layout == "tiles") roles.weight = GpuRoles::WeightLayout::Tiles;
  if (layout == "ldmatrix") roles.weight = GpuRoles::WeightLayout::Matrices;
  if (layout != "fragments") return false;
  PackedTiler(c, block, roles, *weight).run();
  return true;
}

// Activations of few bits as they are stored, or else, as for any other instruction, as bytes.
bool pack_beside_few_bits(RuleContext& c, const Block& block, GpuRoles& roles) {
  std::optional<Packable> weight = packable_beside_few_bits(c, block, roles);
  if (!weight) return false;
  const std::string stored = to_string(*gpu_param_elem(c.s, weight->stored));
  const std::string question = block.name + "." + weight->stored + ".elements";
  if (c.t.choose(question, std::vector<std::string>{stored, "i8"}) == "i8") return false;
  c.s.compute_inline(*weight->bytes);
  roles.a = weight->stored;
  PackedTiler(c, block, roles, *weight).run();
  return true;
}

// How a weight of few bits lies in memory: for matrix instructions, for threads that multiply it by a
// few vectors, or as it is.
std::string few_bits_layout(RuleContext& c, const Block& block, const GpuRoles& roles,
                            bool fragments) {
  std::vector<std::string> layouts;
  if (fragments) layouts.emplace_back("fragments");
  const bool is_stack = !c.input.workload.weight->own_dims.empty();
  if (!gpu_looks_up(c, block, roles.b) && gpu_gemv_takes_words(c, block, roles)) {
    layouts.emplace_back("words");
  }
  layouts.emplace_back("none");
  if (layouts.size() == 1) return layouts[0];
  // At first only matrix instructions were asked for, of single matrices.
  const std::string question = block.name + "." + c.input.workload.weight->weight + ".layout";
  return fragments && !is_stack ? c.t.choose(question, layouts)
                                : c.t.choose_added(question, layouts, "none");
}

// By instructions of a warp, or of a warpgroup where the target has them for so many rows.
void multiply_fragments(RuleContext& c, const Block& block, const GpuRoles& roles,
                        const Packable& weight) {
  const std::string way = gpu_wgmma_packed_way(c, block, roles, weight), warps(weight.row.name);
  // At first there were those of a warp alone.
  const bool is_asked = !way.empty();
  if (is_asked && c.t.choose_added(block.name + ".mma", {warps, way}, warps) == way) {
    return gpu_wgmma_packed_contraction(c, block, roles, weight);
  }
  PackedTiler(c, block, roles, weight).run();
}

}  // namespace

bool gpu_packed_contraction(RuleContext& c, const Block& block, GpuRoles& roles) {
  const std::optional<WeightFormat>& format = c.input.workload.weight;
  if (!format) return pack_plain(c, block, roles);
  if (pack_beside_few_bits(c, block, roles)) return true;
  const std::string key = block.name + "." + format->weight;
  std::optional<Packable> halves = packable(c, block, roles, Multiplied::Halves),
                          kept = packable(c, block, roles, Multiplied::Kept);
  std::vector<std::string> ways;
  if (halves) ways.emplace_back("halves");
  if (kept) {  // first where it is less than half
    ways.insert(2 * format->keep < format->of ? ways.begin() : ways.end(), "kept");
  }
  ways.emplace_back("zeros");
  if (ways.size() > 1) {
    const std::string way = c.t.choose_added(key + ".sparse", ways, "zeros");
    if (way != "zeros") {
      if (way == "halves") multiply_fragments(c, block, roles, *halves);
      if (way == "kept") PackedTiler(c, block, roles, *kept).run();
      return true;
    }
  }
  std::optional<Packable> weight = packable(c, block, roles, Multiplied::All);
  const std::string layout = few_bits_layout(c, block, roles, weight.has_value());
  if (layout == "fragments") {
    weight->value = gpu_take_groups(c, block, roles, *weight->value);
    multiply_fragments(c, block, roles, *weight);
  }
  if (layout == "words") gpu_gemv_by_words(c, block, roles);
  return layout != "none";
}

}  // namespace tilewright
