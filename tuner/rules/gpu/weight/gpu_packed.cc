#include "tuner/rules/gpu/weight/gpu_packed.h"

#include <algorithm>
#include <bit>

#include "base/ceil_div.h"
#include "codegen/cuda/instructions/cuda_mma.h"
#include "codegen/cuda_lowering.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/copy/gpu_tensor_copies.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_packable.h"
#include "tuner/rules/gpu/gpu_packed_layout.h"
#include "tuner/rules/gpu/gpu_packed_parts.h"
#include "tuner/rules/gpu/gpu_siblings.h"
#include "tuner/rules/gpu/gpu_tensor_parts.h"
#include "tuner/rules/gpu/gpu_tiles.h"
#include "tuner/rules/gpu/grid/gpu_grid.h"
#include "tuner/rules/gpu/product/gpu_gemv.h"
#include "tuner/rules/gpu/weight/gpu_grouped.h"
#include "tuner/rules/gpu/weight/gpu_sparse.h"
#include "tuner/rules/gpu/weight/gpu_wgmma_packed.h"

namespace tilewright {
namespace {

class PackedTiler {
 public:
  PackedTiler(RuleContext& c, Block block, GpuRoles roles, const std::vector<Packable>& weights)
      : c_(c), block_(std::move(block)), r_(std::move(roles)), w_(weights.front()), row_(w_.row) {
    const std::vector<Block> blocks = gpu_products(block_, r_);
    for (size_t p = 0; p < blocks.size(); ++p) products_.push_back({blocks[p], weights[p]});
  }

  void run() {
    choose();
    const bool pads = pads_rows_or_terms();
    if (transposed_ == "ahead" && !pads) transpose_ahead();
    int64_t a_row = gpu_row_vectors(c_, block_, r_).first;
    gpu_stage_operands(c_, block_, r_, tile_.m, tile_.n, k_, Scope::Register);
    if (transposed_ == "ahead" && pads) a_row = transpose_padded();
    if (transposed_ == "tile") lay_by_terms(r_.a);
    for (size_t p = 0; p < products_.size(); ++p) {
      products_[p].b = p == 0 ? r_.b : r_.siblings[p - 1].b;
      pack(products_[p]);
    }
    last_ = gpu_place_results(c_, block_, r_);
    if (is_staged()) {
      staged_ = c_.s.cache_read(last_, c_.s.output(block_)->name, Scope::Shared);
    }
    std::vector<GpuProductLoops> loops;
    for (const Product& p : products_) {
      gpu_lay_out_sums(c_, p.block, kWeightRows, true);
      loops.push_back(tile_loops(p.block));
    }
    const GpuTileCopies copies{kByCpAsync, tile_.threads()};
    // Blocks between the products move into their loops before these are merged.
    for (size_t p = 1; p < products_.size(); ++p) {
      place_weight(products_[p], loops[p].k_outer, copies);
    }
    gpu_merge_loops(c_, loops);
    grid_ = loops[0].grid;
    k_outer_ = loops[0].k_outer;
    c_.s.compute_at(gpu_writer(c_.s, r_.a), k_outer_);
    place_weight(products_.front(), k_outer_, copies);
    for (const Product& p : products_) {
      bind_sums(c_.s.decompose_reduction(p.block, k_outer_), 1);
    }
    for (size_t p = 0; p < products_.size(); ++p) {
      const Product& of = products_[p];
      if (w_.scaled) scale_sums(of.block, loops[p].warp);
      if (staged_scales_) {
        gpu_stage_scales(c_, {of.elements, of.block}, of.weight.format, k_outer_, copies);
      }
    }
    finish_result();
    copies.carry_out(c_, r_.a, a_row);
    for (size_t p = 0; p < products_.size(); ++p) {
      copies.carry_out(c_, c_.s.output(products_[p].shared)->name, 128 / bits_of(w_.codes));
      c_.s.annotate(loops[p].marked, kMmaKey, std::string(w_.sparse ? w_.sparse->name : row_.name));
      c_.s.bind(loops[p].warp, ForKind::Warp);
    }
    if (stages_ > 1) c_.s.annotate(k_outer_, kPipelineStagesKey, stages_);
    if (!is_joint()) c_.s.bind(grid_, ForKind::BlockX);
    gpu_mark_grid(c_, blocks_, grid_, k_outer_);
  }

 private:
  // One of the products of a tile of activations, with its own weight.
  struct Product {
    Block block;
    Packable weight;
    std::string b = {};  // elements in registers
    Block elements = {}, shared = {}, codes = {};
    std::optional<GpuPlaces> places = {};
  };

  const BlockNode& node() { return c_.s.node(block_); }
  int64_t extent(int iter) {
    return largest_extent(c_.s, node().iters[static_cast<size_t>(iter)].extent);
  }
  bool is_joint() const { return products_.size() > 1; }
  // A single product stages its accumulators in shared memory; several products stage the
  // epilogue's result.
  bool is_staged() const { return through_shared_ && !is_joint(); }

  // Whether a thread's registers hold the accumulators of all products, and those of a group of one
  // product.
  bool holds_sums(const PackedTile& t) const {
    constexpr int64_t kMostSums = 128;
    return (r_.products() + (w_.scaled ? 1 : 0)) * t.m * t.warp_n / 32 <= kMostSums;
  }

  void choose() {
    std::vector<PackedTile> tiles =
        packed_tiles_for(extent(r_.i), extent(r_.j), c_.input.target.gpu);
    if (is_joint()) std::erase_if(tiles, [&](const PackedTile& t) { return !holds_sums(t); });
    // The columns of a warp share their gathered rows. A compressed weight does less work per
    // activation read, so warps that read them for more columns come first.
    if (w_.gathers()) {
      std::erase_if(tiles, [&](const PackedTile& t) { return w_.vector % t.warp_n != 0; });
    }
    if (w_.is_compressed() && extent(r_.i) > kFewRows) {
      std::stable_partition(tiles.begin(), tiles.end(),
                            [](const PackedTile& t) { return t.warp_n > kWeightRows; });
    }
    tile_ = c_.t.choose_among(block_.name + ".tile", tiles);
    if (w_.gathers()) choose_transposition();
    // A thread has single elements of a column, but memory wants rows. A detour through shared
    // memory pays if the result is small beside the weight.
    const int64_t rows = extent(r_.i);
    std::vector<std::string> ways = {"shared"};
    if (rows > 1) ways.insert(rows > kFewRows ? ways.begin() : ways.end(), "direct");
    // With dynamic rows, the last tile may have fewer rows than threads copy together.
    const bool dynamic = !as_int(node().iters[static_cast<size_t>(r_.i)].extent);
    if (dynamic || is_cut_unevenly()) ways = {"direct"};
    through_shared_ = c_.t.choose(block_.name + ".store", ways) == "shared";
    staged_scales_ = gpu_may_stage_scales(c_, w_, extent(r_.j), tile_.n) &&
                     c_.t.choose(block_.name + ".scales",
                                 std::vector<std::string>{"staged", "direct"}) == "staged";
    k_ = c_.t.choose(block_.name + ".k", lengths());
    stages_ = c_.t.choose(block_.name + ".stages", depths());
    layout_ = packed_layout(tile_.n, w_.kept(k_), bits_of(w_.codes), row_);
    choose_grid();
  }

  void choose_grid() {
    int64_t tiles = ceil_div(extent(r_.i), tile_.m) * ceil_div(extent(r_.j), tile_.n);
    for (int b : r_.batch) tiles *= extent(b);
    // Column scales need accumulators of their own, so blocks cannot share k.
    const bool scales_behind = w_.scaled && w_.group == 0;
    blocks_ = gpu_choose_grid(c_, block_.name,
                              {tiles, ceil_div(w_.k, k_), shared_bytes(k_, stages_),
                               tile_.threads(), !scales_behind && !is_joint()});
  }

  // Whether tiles are wider than the result and stacked: threads that share the rest of a row then
  // copy rows of two tiles.
  bool is_cut_unevenly() {
    const int64_t columns = extent(r_.j);
    return columns < tile_.n && extent(r_.i) > tile_.m &&
           !std::has_single_bit(static_cast<uint64_t>(columns));
  }

  // Gathering needs k as rows of the activations' tile. A kernel of its own transposes the
  // activations, or the copy to shared memory does.
  void choose_transposition() {
    if (plain_iterator(node(), indices_of(node(), r_.a).back()) == r_.i) return;
    transposed_ = c_.t.choose(block_.name + "." + r_.a + ".transposed",
                              std::vector<std::string>{"ahead", "tile"});
  }

  void transpose_ahead() {
    r_.a = c_.s.output(c_.s.cache_read(block_, r_.a, Scope::Global))->name;
    lay_by_terms(r_.a);
  }

  // Whether the activations have partial tiles along rows (always, if rows are dynamic) or along k.
  bool pads_rows_or_terms() {
    auto rows = as_int(node().iters[static_cast<size_t>(r_.i)].extent);
    return !rows || *rows % tile_.m != 0 || w_.k % k_ != 0;
  }

  // The same with padding, tile by tile. The product's copies start at multiples of 16 bytes and
  // need no condition, for any number of rows. Returns the vector width of a copy.
  int64_t transpose_padded() {
    c_.s.set_scope(r_.a, Scope::Global);
    const int64_t rows = tile_.m;
    c_.s.transform_layout(
        r_.a, IndexMap::make(2, [&](const std::vector<Var>& x) {
          return std::vector<Expr>{floordiv(x[0], rows), x[1], floormod(x[0], rows)};
        }));
    r_.a = c_.s.output(c_.s.cache_read(block_, r_.a, Scope::Shared))->name;
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
    int64_t weight = tile_.n * w_.kept(k) * bits / 8;
    if (staged_scales_) weight += 2 * 128 + tile_.n * 6;
    const int64_t stage =
        tile_.m * (k * bits_of(w_.operand) / 8 + padding) + r_.products() * weight;
    int64_t result = through_shared_ ? tile_.m * (tile_.n * 4 + padding) : 0;
    return stage * stages + result;
  }

  // Tile lengths along k such that at least two tiles fit into shared memory.
  std::vector<int64_t> lengths() const {
    std::vector<int64_t> lengths = packed_lengths_for(w_, tile_.m);
    std::erase_if(lengths, [&](int64_t k) {
      return k > w_.terms() && shared_bytes(k, 2) > c_.input.target.gpu.shared_per_block;
    });
    return lengths;
  }

  // Pipeline depths: the deepest one with which two blocks fit an SM comes first.
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

  // Makes the weight's elements in registers, in the order of the instruction, without scales. Its
  // codes, in the same order, are staged in shared memory and in registers.
  void pack(Product& p) {
    const WeightFormat& format = p.weight.format;
    const int rank = w_.rank(), column = format.column_dim, k = format.k_dims[0];
    if (p.weight.value) c_.s.compute_inline(*p.weight.value);
    p.elements = gpu_writer(c_.s, p.b);
    std::string codes = format.weight;
    if (w_.is_compressed()) codes = compress(p);
    if (p.weight.value) c_.s.unscale(p.elements, w_.doubled ? ElemType::f32 : w_.operand);
    const int first = w_.doubled ? 1 : 0;  // offset of the weight's dimensions
    if (w_.doubled) c_.s.store_halves(p.elements, w_.operand);
    gpu_lay_out(c_, p.b, row_.a(), first + column, first + k);
    c_.s.prepack(codes, layout_.map(rank, column, k));
    p.shared = gpu_read_shared(c_, p.elements, gpu_codes_of(c_, p.elements, format));
    p.codes = c_.s.cache_read(p.elements, c_.s.output(p.shared)->name, Scope::Register);
  }

  // Leaves out the pattern's zeros. Returns the parameter with the kept elements.
  std::string compress(Product& p) {
    const WeightFormat& format = p.weight.format;
    const int rank = 2, column = format.column_dim, k = format.k_dims[0];
    const int64_t tile_r = w_.kept(k_);
    std::vector<std::string> kept =
        c_.s.compress_operand(p.block, p.b, format.weight, w_.keep, w_.of, w_.vector);
    IndexMap map = w_.sparse ? metadata_map(*w_.sparse, rank, column, k, tile_.n, tile_r)
                             : places_map(rank, column, k, w_.vector, tile_.n, tile_r);
    p.places.emplace(c_, p.block, kept[1], map, w_.sparse != nullptr);
    return kept[0];
  }

  // Loops i, j, k become: grid, k_outer (the mainloop), warp, k, fragments of the weight, fragments
  // of the other operand, loops inside an instruction. Neighbouring blocks share the weight.
  GpuProductLoops tile_loops(const Block& product) {
    auto loop_of = [&](int iter) { return gpu_loop_of(c_.s, product, iter); };
    std::vector<Loop> i = c_.s.split(loop_of(r_.i), {-1, tile_.m / 8, 8});
    std::vector<Loop> j = c_.s.split(
        loop_of(r_.j), {-1, tile_.n / tile_.warp_n, tile_.warp_n / kWeightRows, kWeightRows});
    std::vector<Loop> k = c_.s.split(loop_of(r_.k), {-1, k_ / w_.terms(), w_.kept(w_.terms())});
    std::vector<Loop> grid;
    for (int b : r_.batch) grid.push_back(loop_of(b));
    grid.insert(grid.end(), {j[0], i[0]});
    std::vector<Loop> order = grid;
    order.insert(order.end(), {k[0], j[1], k[1]});
    if (w_.doubled) order.push_back(Loop{Var(c_.s.node(product).iters.back().binding).name()});
    order.insert(order.end(), {j[2], i[1], j[3], i[2], k[2]});
    c_.s.reorder(order);
    const Loop tiles = gpu_fused(c_, grid);
    // Loops of one iteration disappear.
    const Loop marked = tile_.warp_n > kWeightRows ? j[2] : tile_.m > 8 ? i[1] : j[3];
    return {tiles, k[0], k[1], j[1], marked};
  }

  // Places a tile of codes and the elements that they become.
  void place_weight(Product& p, const Loop& k_outer, const GpuTileCopies& copies) {
    c_.s.compute_at(p.elements, k_outer);
    gpu_unpack(c_, p.elements, p.codes, p.weight, layout_, 2, tile_.n / tile_.warp_n);
    c_.s.compute_at(p.shared, k_outer);
    if (p.places) p.places->place(k_outer, copies, tile_.n / tile_.warp_n);
  }

  // Binds the loops of a block over all accumulators, under its first `around` loops.
  void bind_sums(const Block& block, size_t around) {
    std::vector<Loop> loops = c_.s.loops(block);
    loops.erase(loops.begin(), loops.begin() + static_cast<long>(around));
    gpu_bind_packed_lanes(c_, loops[0], {loops.begin() + 1, loops.end() - 2},
                          loops[loops.size() - 2], loops.back());
  }

  // Applies a group's scales to the accumulators of a k tile, or column scales to those of all of
  // k.
  void scale_sums(const Block& product, const Loop& warp) {
    const bool whole = w_.group == 0;
    std::vector<Block> made = c_.s.factor_scale(product, whole ? k_outer_ : warp, row_.acc);
    c_.s.set_scope(c_.s.output(made[0])->name, Scope::Register);
    for (const Block& b : {made[1], product}) bind_sums(b, whole ? 1 : 2);
  }

  // Binds a block over the result tile, whose last loops are rows and columns, to the threads that
  // hold its accumulators.
  void bind_result(const Block& block) {
    std::vector<Loop> loops = c_.s.loops(block);
    std::vector<Loop> i = c_.s.split(loops[loops.size() - 2], {tile_.m / 8, 8});
    std::vector<Loop> j =
        c_.s.split(loops.back(), {tile_.n / tile_.warp_n, tile_.warp_n / kWeightRows, kWeightRows});
    c_.s.reorder({j[0], j[1], i[0], j[2], i[1]});
    gpu_bind_packed_lanes(c_, j[0], {j[1], i[0]}, j[2], i[1]);
  }

  void finish_result() {
    Block rows = last_;
    if (through_shared_ && is_joint()) {
      rows = c_.s.cache_write(last_, c_.s.output(last_)->name, Scope::Shared);
    }
    if (is_staged()) c_.s.reverse_compute_at(staged_, grid_);
    c_.s.reverse_compute_at(last_, grid_);
    if (!(rows == last_)) c_.s.reverse_compute_at(rows, grid_);
    // Bound now, while the program still shows what is private to a block.
    if (is_joint()) c_.s.bind(grid_, ForKind::BlockX);
    bind_result(is_staged() ? staged_ : last_);
    if (through_shared_) gpu_store_packed_rows(c_, rows, tile_.threads());
  }

  RuleContext& c_;
  Block block_, last_, staged_;
  GpuRoles r_;
  Packable w_;
  const Instruction& row_;
  std::vector<Product> products_;
  PackedTile tile_{};
  PackedLayout layout_{};
  int64_t k_ = 0, stages_ = 1;
  bool through_shared_ = true, staged_scales_ = false;
  std::string transposed_;  // how activations are transposed; empty: not at all
  GpuGrid blocks_;
  Loop grid_, k_outer_;
};

}  // namespace

namespace {

// A weight whose elements instructions take as they are.
bool pack_plain(RuleContext& c, const Block& block, GpuRoles& roles) {
  std::optional<Packable> weight = packable_as_it_is(c, block, roles);
  if (!weight) return false;
  const std::string layout =
      c.t.choose(block.name + "." + weight->format.weight + ".layout",
                 std::vector<std::string>{"none", "tiles", "ldmatrix", "fragments"});
  if (layout == "tiles") roles.weight = GpuRoles::WeightLayout::Tiles;
  if (layout == "ldmatrix") roles.weight = GpuRoles::WeightLayout::Matrices;
  if (layout != "fragments") return false;
  PackedTiler(c, block, roles, {*weight}).run();
  return true;
}

// Few-bit activations as they are stored; the other choice is bytes, as for any other instruction.
bool pack_beside_few_bits(RuleContext& c, const Block& block, GpuRoles& roles) {
  std::optional<Packable> weight = packable_beside_few_bits(c, block, roles);
  if (!weight) return false;
  const std::string stored = to_string(*gpu_param_elem(c.s, weight->stored));
  const std::string question = block.name + "." + weight->stored + ".elements";
  if (c.t.choose(question, std::vector<std::string>{stored, "i8"}) == "i8") return false;
  c.s.compute_inline(*weight->bytes);
  roles.a = weight->stored;
  PackedTiler(c, block, roles, {*weight}).run();
  return true;
}

// The layout of a few-bit weight in memory: for matrix instructions, for threads that multiply it
// by a few vectors (GEMV), or as it is.
std::string few_bits_layout(RuleContext& c, const Block& block, const GpuRoles& roles,
                            bool fragments) {
  std::vector<std::string> layouts;
  if (fragments) layouts.emplace_back("fragments");
  if (!gpu_looks_up(c, block, roles.b) && gpu_gemv_takes_words(c, block, roles)) {
    layouts.emplace_back("words");
  }
  layouts.emplace_back("none");
  if (layouts.size() == 1) return layouts[0];
  return c.t.choose(block.name + "." + c.input.workload.weight->weight + ".layout", layouts);
}

}  // namespace

void gpu_multiply_fragments(RuleContext& c, const Block& block, const GpuRoles& roles,
                            const std::vector<Packable>& weights) {
  const std::string way = gpu_wgmma_packed_way(c, block, roles, weights.front()),
                    warps(weights.front().row.name);
  if (!way.empty() &&
      c.t.choose(block.name + ".mma", std::vector<std::string>{warps, way}) == way) {
    return gpu_wgmma_packed_contraction(c, block, roles, weights);
  }
  PackedTiler(c, block, roles, weights).run();
}

bool gpu_packed_contraction(RuleContext& c, const Block& block, GpuRoles& roles) {
  const std::optional<WeightFormat>& format = c.input.workload.weight;
  if (!format) return pack_plain(c, block, roles);
  if (pack_beside_few_bits(c, block, roles)) return true;
  const std::string key = block.name + "." + format->weight;
  std::optional<Packable> halves = packable(c, block, roles, Multiplied::Halves),
                          kept = packable(c, block, roles, Multiplied::Kept);
  std::vector<std::string> ways;
  if (halves) ways.emplace_back("halves");
  if (kept) {  // first if the pattern keeps less than half
    ways.insert(2 * format->keep < format->of ? ways.begin() : ways.end(), "kept");
  }
  ways.emplace_back("zeros");
  if (ways.size() > 1) {
    const std::string way = c.t.choose(key + ".sparse", ways);
    if (way != "zeros") {
      if (way == "halves") gpu_multiply_fragments(c, block, roles, {*halves});
      if (way == "kept") PackedTiler(c, block, roles, {*kept}).run();
      return true;
    }
  }
  std::optional<Packable> weight = packable(c, block, roles, Multiplied::All);
  const std::string layout = few_bits_layout(c, block, roles, weight.has_value());
  if (layout == "fragments") {
    weight->value = gpu_take_groups(c, block, roles, *weight->value);
    gpu_multiply_fragments(c, block, roles, {*weight});
  }
  if (layout == "words") gpu_gemv_by_words(c, block, roles);
  return layout != "none";
}

}  // namespace tilewright
