// The knobs of products with a packed weight, which instructions take from registers.
#include <algorithm>
#include <bit>

#include "base/ceil_div.h"
#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda/instructions/cuda_wgmma_nest.h"
#include "codegen/cuda_lowering.h"
#include "kernel/instructions/tensor_sums.h"
#include "kernel/instructions/wgmma_rows.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu_tensor_parts.h"
#include "tuner/rules/gpu/gpu_units.h"
#include "tuner/rules/gpu/product/gpu_ask.h"
#include "tuner/rules/gpu/product/gpu_operands.h"

namespace tilewright {
namespace {

using Staged = GpuEpilogue::Staged;

// Epilogue stores: accumulators through shared memory, accumulators directly, or results through
// shared memory in their own type. In the last case threads or TMA store them.
constexpr const char* kSums = "shared";
constexpr const char* kDirect = "direct";
constexpr const char* kResults = "shared_result";

// The row that takes the weight from registers, and `n` rows of activations; a sparse row for a
// weight reduced to kept elements. Null if there is none.
const Instruction* wgmma_row(const RuleContext& c, const Packable& w, int64_t n) {
  return gpu_find_row(w.sparse ? sparse_wgmma_rows() : wgmma_rows(),
                      {w.operand, w.operand, w.row.acc}, c.input.target, n);
}

// The k that is unpacked and multiplied as one group: a swizzle atom of activations, or less if a
// scale serves less. 0 if a scale does not serve even an instruction, or the instructions that
// share metadata.
int64_t wgmma_chunk(const Packable& w) {
  int64_t terms = kSpanBytes * 8 / bits_of(w.operand);
  while (terms >= w.terms() && w.group % terms != 0) terms /= 2;
  return terms >= w.terms() ? terms : 0;
}

// Bits of a kept element of the weight, with its metadata.
int64_t stored_bits(const Packable& w) {
  return bits_of(w.codes) + (w.sparse ? w.sparse->index_bits : 0);
}

// Whether rows of scales and zero points are staged. They can be if tiles of `tile_n` columns are
// copied as 16-byte vectors, ahead of the accumulators. `columns` are those of the result.
bool ask_scales(RuleContext& c, const GpuProduct& p, int64_t columns, int64_t tile_n) {
  const Packable& w = p.weights.front();
  auto in_pieces = [&](const std::string& buffer) {
    auto elem = gpu_param_elem(c.s, buffer);
    return !elem || tile_n * bits_of(*elem) % kAccessBits == 0;
  };
  const bool may_be = w.group > 0 && !w.is_compressed() && columns % tile_n == 0 &&
                      w.k % w.group == 0 && in_pieces(w.format.scale) && in_pieces(w.format.zero);
  return may_be && c.t.choose(p.block.name + ".scales",
                              std::vector<std::string>{"staged", "direct"}) == "staged";
}

// Several products stage the epilogue's result, where a single one stages its accumulators.
Staged staged_of(const GpuProduct& p, const std::string& way) {
  if (way == kDirect) return Staged::Nothing;
  return way == kSums && p.roles.siblings.empty() ? Staged::Sums : Staged::Results;
}

// Questions about a product of warps.
class WarpQuestions {
 public:
  WarpQuestions(RuleContext& c, const GpuProduct& p)
      : c_(c), p_(p), w_(p.weights.front()), size_(gpu_sizes_of(c, p)) {}

  GpuProductPlan ask() {
    const std::string& name = p_.block.name;
    plan_.row = w_.sparse ? w_.sparse : &w_.row;
    plan_.is_swapped = true;
    plan_.tile = c_.t.choose_among(name + ".tile", tiles(), swapped_tile_name);
    if (w_.gathers()) ask_transposition();
    plan_.epilogue.staged = staged_of(p_, c_.t.choose(name + ".store", ways_to_store()));
    plan_.stages_scales = ask_scales(c_, p_, size_.j, plan_.tile.n);
    plan_.tile.k = plan_.chunk = c_.t.choose(name + ".k", lengths());
    plan_.pipeline.stages = c_.t.choose(name + ".stages", depths());
    // Column scales need accumulators of their own, so blocks cannot share k.
    const bool scales_behind = w_.scaled && w_.group == 0;
    plan_.grid =
        gpu_ask_grid(c_, p_, plan_,
                     {size_.tiles(plan_.tile), w_.k,
                      shared_bytes(plan_.tile.k, plan_.pipeline.stages), 0, !scales_behind});
    return plan_;
  }

 private:
  // Whether a thread's registers hold the accumulators of all products, and those of a group of one
  // product.
  bool holds_sums(const TensorTileSizes& t) const {
    constexpr int64_t kMostSums = 128;
    return (p_.roles.products() + (w_.scaled ? 1 : 0)) * t.m * t.warp_n / 32 <= kMostSums;
  }

  std::vector<TensorTileSizes> tiles() const {
    std::vector<TensorTileSizes> tiles = packed_tiles_for(size_.i, size_.j, c_.input.target.gpu);
    if (p_.roles.products() > 1) {
      std::erase_if(tiles, [&](const TensorTileSizes& t) { return !holds_sums(t); });
    }
    // The columns of a warp share their gathered rows. A compressed weight does less work per
    // activation read, so warps that read them for more columns come first.
    if (w_.gathers()) {
      std::erase_if(tiles, [&](const TensorTileSizes& t) { return w_.vector % t.warp_n != 0; });
    }
    if (w_.is_compressed() && size_.i > kFewRows) {
      std::stable_partition(tiles.begin(), tiles.end(),
                            [](const TensorTileSizes& t) { return t.warp_n > kWeightRows; });
    }
    return tiles;
  }

  // A thread has single elements of a column, but memory wants rows. A detour through shared memory
  // pays if the result is small beside the weight.
  std::vector<std::string> ways_to_store() const {
    std::vector<std::string> ways = {kSums};
    if (size_.i > 1) ways.insert(size_.i > kFewRows ? ways.begin() : ways.end(), kDirect);
    // With dynamic rows, the last tile may have fewer rows than threads copy together. Of tiles
    // that are wider than the result and stacked, threads that share the rest of a row would copy
    // rows of two.
    const bool is_cut_unevenly = size_.j < plan_.tile.n && size_.i > plan_.tile.m &&
                                 !std::has_single_bit(static_cast<uint64_t>(size_.j));
    if (size_.has_dynamic_rows || is_cut_unevenly) ways = {kDirect};
    return ways;
  }

  // Gathering needs k as rows of the activations' tile. A kernel of its own transposes the
  // activations, or the copy to shared memory does.
  void ask_transposition() {
    const BlockNode& n = c_.s.node(p_.block);
    if (plain_iterator(n, indices_of(n, p_.roles.a).back()) == p_.roles.i) return;
    plan_.transposed = c_.t.choose(p_.block.name + "." + p_.roles.a + ".transposed",
                                   std::vector<std::string>{kAhead, kByTile});
  }

  int64_t shared_bytes(int64_t k, int64_t stages) const {
    constexpr int64_t kPadding = 16;
    const TensorTileSizes& tile = plan_.tile;
    int64_t weight = tile.n * w_.kept(k) * stored_bits(w_) / 8;
    if (plan_.stages_scales) weight += 2 * 128 + tile.n * 6;
    const int64_t stage =
        tile.m * (k * bits_of(w_.operand) / 8 + kPadding) + p_.roles.products() * weight;
    return stage * stages + (plan_.epilogue.is_staged() ? gpu_staged_bytes(tile) : 0);
  }

  // Tile lengths along k such that at least two tiles fit into shared memory.
  std::vector<int64_t> lengths() const {
    std::vector<int64_t> lengths = packed_lengths_for(w_, plan_.tile.m);
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
      if (shared_bytes(plan_.tile.k, stages) <= gpu.shared_per_block) depths.push_back(stages);
    }
    if (depths.empty()) depths.push_back(1);
    gpu_put_first(depths, [&](int64_t stages) {
      return 2 * shared_bytes(plan_.tile.k, stages) <= gpu.shared_per_sm;
    });
    return depths;
  }

  RuleContext& c_;
  const GpuProduct& p_;
  const Packable& w_;
  ProductSizes size_;
  GpuProductPlan plan_ = {};
};

// Questions about a product of warpgroups.
class WarpgroupQuestions {
 public:
  WarpgroupQuestions(RuleContext& c, const GpuProduct& p)
      : c_(c), p_(p), w_(p.weights.front()), size_(gpu_sizes_of(c, p)),
        result_elem_(gpu_result_elem(c, p.block)) {}

  GpuProductPlan ask() {
    const std::string& name = p_.block.name;
    plan_.is_swapped = plan_.is_swizzled = true;
    plan_.chunk = wgmma_chunk(w_);
    const bool of_groups = w_.scaled && w_.group > 0;
    plan_.is_promoted = gpu_promotes(c_, p_.block, w_.operand, of_groups ? w_.group : size_.k);
    std::vector<TensorTileSizes> tiles =
        wgmma_packed_tiles_for(size_.i, size_.j, sets_of_sums(), c_.input.target.gpu);
    std::erase_if(tiles, [&](const TensorTileSizes& t) { return !wgmma_row(c_, w_, t.m); });
    TensorTileSizes& tile = plan_.tile =
        c_.t.choose_among(name + ".tile", tiles, swapped_tile_name);
    plan_.row = wgmma_row(c_, w_, tile.m);
    ask_store();
    plan_.stages_scales = ask_scales(c_, p_, size_.j, tile.n);
    tile.k = c_.t.choose(name + ".k", lengths());
    plan_.pipeline.copies = ask_copies();
    plan_.pipeline.stages = c_.t.choose(name + ".stages", depths());
    ask_cluster();
    if (!size_.has_dynamic_rows) ask_order();
    // Column scales need accumulators of their own, so blocks cannot share k.
    const bool scales_behind = w_.scaled && w_.group == 0;
    plan_.grid = gpu_ask_grid(c_, p_, plan_,
                              {size_.tiles(tile), w_.k, shared_bytes(tile.k, plan_.pipeline.stages),
                               sums(), !scales_behind});
    return plan_;
  }

 private:
  // Rounding before or after shared memory gives the same values. TMA stores require TMA loads.
  void ask_store() {
    const Expr& columns = c_.s.node(p_.block).iters[static_cast<size_t>(p_.roles.j)].extent;
    int64_t box = 0;
    std::vector<std::string> ways = {kSums, kDirect};
    // With dynamic rows, the last tile may have fewer rows than threads copy together. Rows shorter
    // than a tile cannot be divided evenly.
    if (size_.has_dynamic_rows || size_.j < plan_.tile.n) {
      ways = {kDirect};
    } else if (p_.roles.siblings.empty()) {
      if (bits_of(result_elem_) < bits_of(w_.row.acc)) ways.emplace_back(kResults);
      box = gpu_box_columns(c_, p_.block, plan_.tile, columns);
      if (box > 0 && are_rows()) ways.emplace_back(kInBoxes);
    }
    const std::string way = c_.t.choose(p_.block.name + ".store", ways);
    plan_.epilogue.staged = staged_of(p_, way);
    if (way == kResults) plan_.epilogue.vector = kAccessBits / bits_of(result_elem_);
    if (way == kInBoxes) plan_.epilogue.box_columns = box;
  }

  // The tile order of the swapped product: its rows are the weight's columns.
  void ask_order() {
    const int64_t rows = ceil_div(size_.j, plan_.tile.n) / plan_.cluster.columns;
    const int64_t columns = ceil_div(size_.i, plan_.tile.m);
    plan_.order =
        gpu_choose_tile_order(c_, p_.block.name, {plan_.cluster.columns, 1}, rows, columns);
  }

  // Blocks of neighbouring columns share the activations' TMA tiles. Each tile is cut into parts of
  // whole swizzle patterns. The weight has no tile beyond its columns.
  void ask_cluster() {
    constexpr int64_t kPair = 2, kPatternBytes = 1024;
    const int64_t box = plan_.tile.m * plan_.chunk * bits_of(w_.operand) / 8;
    const int64_t columns = ceil_div(size_.j, plan_.tile.n);
    if (box % (kPair * kPatternBytes) != 0 || columns % kPair != 0) return;
    plan_.cluster = gpu_choose_cluster(c_, p_.block.name, plan_.pipeline.copies, 1, columns);
  }

  // Sets of accumulators per thread: one per product, and one for a group or a promoted tile, which
  // one product needs at a time.
  int sets_of_sums() const {
    return static_cast<int>(p_.roles.products()) + (w_.scaled || plan_.is_promoted ? 1 : 0);
  }

  // Accumulators per thread: a warpgroup has 64 columns and all rows.
  int64_t sums() const { return sets_of_sums() * plan_.tile.m * kWarpgroupRows / kWarpgroup; }
  // The least number of registers per thread.
  int64_t registers() const {
    return gpu_registers_with_copies(c_, plan_.pipeline.copies, plan_.tile.threads(), sums());
  }

  // Packed weights have the same layout in memory and in shared memory; the activations' rows need
  // a tensor map.
  std::string ask_copies() {
    std::vector<std::string> ways = {kByRoles, kByThreads, kByCpAsync};
    if (plan_.epilogue.box_columns > 0) {
      ways.pop_back();
    } else if (!are_rows() ||
               shared_bytes(plan_.tile.k, 2) > c_.input.target.gpu.shared_per_block) {
      return kByCpAsync;
    }
    return c_.t.choose(p_.block.name + ".copies", ways);
  }

  bool are_rows() const {
    return gpu_row_vectors(c_, p_.block, p_.roles).first * bits_of(w_.operand) == kAccessBits;
  }

  int64_t shared_bytes(int64_t k, int64_t stages) const {
    auto whole = [](int64_t bytes) { return round_up(bytes, kWgmmaAlign); };
    const TensorTileSizes& t = plan_.tile;
    int64_t weight = whole(stages * t.n * w_.kept(k) * bits_of(w_.codes) / 8);
    if (w_.sparse) weight += whole(stages * t.n * w_.kept(k) * w_.sparse->index_bits / 8);
    constexpr int64_t kShared = 6, kPadding = 16;  // bytes of a column's scale and zero; of a row
    if (plan_.stages_scales) weight += whole(stages * (t.n * kShared + 2 * kPadding)) + kWgmmaAlign;
    const int64_t bytes =
        whole(stages * t.m * k * bits_of(w_.operand) / 8) + p_.roles.products() * weight;
    const GpuEpilogue& e = plan_.epilogue;
    if (!e.is_staged()) return bytes;
    const bool has_own_type = e.staged == Staged::Results && p_.roles.siblings.empty();
    const int64_t of_result = bits_of(has_own_type ? result_elem_ : w_.row.acc) / 8;
    return bytes + whole(t.m * (t.n * of_result + kPadding));
  }

  // Lengths of a tile along k: whole chunks, which divide a group. Promoted accumulators belong to
  // one tile.
  std::vector<int64_t> lengths() const {
    std::vector<int64_t> lengths;
    for (int64_t chunks : {2, 1, 4}) {
      const int64_t k = chunks * plan_.chunk;
      const bool useful = k < 2 * w_.k || chunks == 1;
      const bool fits = chunks == 1 || shared_bytes(k, 2) <= c_.input.target.gpu.shared_per_block;
      const bool is_short = !plan_.is_promoted || k <= kPromotedTerms;
      if (w_.group % k == 0 && useful && fits && is_short && shares(chunks)) lengths.push_back(k);
    }
    return lengths;
  }

  // Whether all threads copy each of `chunks` chunks of activations evenly, as 16-byte vectors.
  bool shares(int64_t chunks) const {
    const int64_t pieces = plan_.tile.m * plan_.chunk * bits_of(w_.operand) / 128;
    return chunks == 1 || pieces % plan_.tile.threads() == 0 ||
           std::has_single_bit(static_cast<uint64_t>(pieces));
  }

  // The least stages with which one block of an SM keeps as much of the weight on its way as memory
  // delivers in the time that it takes to answer under load (Little's law). One more is multiplied.
  int64_t stages_in_flight() const {
    constexpr double kSecondsToAnswer = 1e-6;
    const GpuFacts& gpu = c_.input.target.gpu;
    const int64_t bits =
        p_.roles.products() * plan_.tile.n * w_.kept(plan_.tile.k) * stored_bits(w_);
    const double wanted = gpu.bandwidth / gpu.sms * kSecondsToAnswer;
    return 1 + ceil_div(static_cast<int64_t>(8 * wanted), bits);
  }

  // Pipeline depths. The deepest one with which two blocks fit an SM comes first, if it is enough
  // to prefetch. If not, the first is the least with which one block waits for memory's rate alone,
  // or the deepest that there is.
  std::vector<int64_t> depths() const {
    const GpuFacts& gpu = c_.input.target.gpu;
    const int64_t k = plan_.tile.k;
    std::vector<int64_t> all = {6, 4, 3, 2, 1}, depths;
    if (gpu_copies_boxes(plan_.pipeline.copies)) all = {8, 6, 5, 4, 3, 2};
    for (int64_t stages : all) {
      if (stages == all.back() || shared_bytes(k, stages) <= gpu.shared_per_block) {
        depths.push_back(stages);
      }
    }
    constexpr int64_t kLeastAhead = 3;
    const int64_t threads =
        gpu_threads_with_copies(c_, plan_.pipeline.copies, plan_.tile.threads());
    const bool are_two = 2 * threads * registers() <= gpu.registers_per_sm;
    auto is_sound = [&](int64_t stages) {
      return are_two && stages >= kLeastAhead && 2 * shared_bytes(k, stages) <= gpu.shared_per_sm;
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

  RuleContext& c_;
  const GpuProduct& p_;
  const Packable& w_;
  ProductSizes size_;
  ElemType result_elem_;
  GpuProductPlan plan_ = {};
};

}  // namespace

std::string gpu_packed_wgmma_way(const RuleContext& c, const GpuProduct& p) {
  constexpr int64_t kRows = 8;  // up to here warp instructions need no padding either
  constexpr int64_t kAnyRows = 64;
  const Packable& w = p.weights.front();
  const ProductSizes s = gpu_sizes_of(c, p);
  const bool is_many = s.i > kRows && s.j >= kWarpgroupRows;
  if (!is_many || w.gathers() || wgmma_chunk(w) == 0) return "";
  const Instruction* row = wgmma_row(c, w, kAnyRows);
  return row ? gpu_way_of(*row, w.sparse ? "wgmma_sp" : "wgmma") : "";
}

GpuProductPlan gpu_ask_packed_mma(RuleContext& c, const GpuProduct& p) {
  return WarpQuestions(c, p).ask();
}

GpuProductPlan gpu_ask_packed_wgmma(RuleContext& c, const GpuProduct& p) {
  return WarpgroupQuestions(c, p).ask();
}

}  // namespace tilewright
