#include "tuner/rules/gpu/chain/gpu_wgmma_chain.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ceil_div.h"
#include "codegen/cuda/cuda_masks.h"
#include "codegen/cuda/cuda_roles.h"
#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda/cuda_tile_order.h"
#include "codegen/cuda/instructions/cuda_mma.h"
#include "codegen/cuda/instructions/cuda_wgmma_flight.h"
#include "codegen/cuda_lowering.h"
#include "ir/type.h"
#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/chain/gpu_chain_rows.h"
#include "tuner/rules/gpu/copy/gpu_tensor_copies.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_packed_layout.h"
#include "tuner/rules/gpu/gpu_roles.h"
#include "tuner/rules/gpu/gpu_tensor_parts.h"
#include "tuner/rules/gpu/gpu_units.h"

namespace tilewright {
namespace {

constexpr const char* kOverValues = "values";
constexpr const char* kNothing = "none";
constexpr const char* kLongestFirst = "longest_first";
constexpr const char* kByRows = "rows";
constexpr int64_t kOwnRegisters = 30;  // registers for addresses, loops, row maxima and sums

// The instruction of `columns` columns for 16-bit operands and f32 accumulators; null if the target
// has none.
const Instruction* row_for(ElemType elem, int64_t columns, const Target& target) {
  const Instruction* row =
      find_instruction(fmt::format("m64n{}k16_f32_{}", columns, to_string(elem)));
  return row && row->runs_on(target.gpu.compute_capability) ? row : nullptr;
}

// Elements per row of shared memory: the widest swizzle atom that divides the extent.
int64_t span_of_row(int64_t extent, ElemType elem) {
  int64_t span = kSpanBytes * 8 / bits_of(elem);
  while (extent % span != 0) span /= 2;
  return span;
}

class WgmmaChainKernel {
 public:
  WgmmaChainKernel(RuleContext& c, const WgmmaChain& t) : c_(c), t_(t), chain_(t.chain) {}

  void run() {
    choose();
    c_.s.store_rounded(chain_.weights);
    pad_softmax_chain(c_.s, chain_, tile_.rows, tile_.keys, t_.row(chain_.columns).k);
    const ScoreOperands operands = score_operands(c_.s, chain_);
    const std::string values = value_operand(c_.s, chain_);
    OnlineLoops loops = place_softmax_chain(c_.s, chain_, tile_.rows, tile_.keys);
    // Bound while each block still stores its results whole: disjoint tiles cannot be recognized in
    // pieces.
    c_.s.bind(loops.tile, ForKind::BlockX);
    order_tiles(loops);
    share(copy_of(chain_.scores, operands.rows, t_.terms, loops.tile));
    bring(copy_of(chain_.scores, operands.keys, t_.terms, loops.step));
    bring(copy_of(chain_.product, values, chain_.columns, loops.step));
    std::optional<Block> held;
    // A second copy of the weights: the product reads it while the next keys' weights are computed.
    if (is_behind_) {
      held = c_.s.cache_read(chain_.product, c_.s.output(chain_.weights)->name, Scope::Register);
    }
    lay_out(held);
    multiply(chain_.scores, tile_.keys);
    multiply(chain_.product, chain_.columns);
    const ChainRows rows(c_, tile_.rows, kWarpRows);
    rows.bind_softmax(chain_, loops.made, tile_.keys);
    if (held) rows.bind_sums(*held, tile_.keys);
    c_.s.annotate(loops.tile, kSharedRowsKey, std::string(kSwizzled));
    if (stages_ > 1) c_.s.annotate(loops.step, kPipelineStagesKey, stages_);
    if (gpu_copies_boxes(copies_)) c_.s.annotate(loops.step, kCopiesKey, copies_);
    c_.s.annotate(loops.step, kMasksApartKey, int64_t{1});
  }

 private:
  std::string key(const char* what) const { return chain_.top.name + "." + what; }

  void choose() {
    tile_ = c_.t.choose_among(key("tile"), t_.tiles);
    std::vector<std::string> ways = {kByRoles, kByThreads, kByCpAsync};
    if (!are_boxes()) ways = {kByCpAsync};
    copies_ = c_.t.choose(key("copies"), ways);
    if (copies_ == kByRoles && t_.may_overlap(tile_, c_.input.target.gpu)) {
      is_behind_ = c_.t.choose(key("overlap"), std::vector<std::string>{kOverValues, kNothing}) ==
                   kOverValues;
    }
    std::vector<int64_t> depths = {2, 3, 4};
    if (is_behind_) depths.erase(depths.begin());
    if (!gpu_copies_boxes(copies_)) depths.push_back(1);
    std::erase_if(depths, [&](int64_t n) {
      return n > depths.front() && t_.bytes(tile_, n) > c_.input.target.gpu.shared_per_block;
    });
    stages_ = c_.t.choose(key("stages"), depths);
  }

  // Tiles that see more keys may run first, if the number of tiles is static.
  void order_tiles(const OnlineLoops& loops) {
    const int64_t tiles = ceil_div(chain_.rows, tile_.rows);
    const ForNode& tile = c_.s.node(loops.tile);
    const bool differ = uses_var(c_.s.node(loops.step).extent, tile.var);
    if (!differ || !as_int(tile.extent) || tiles == 1) return;
    const bool longest_first =
        c_.t.choose(key("order"), std::vector<std::string>{kLongestFirst, kByRows}) ==
        kLongestFirst;
    if (longest_first) c_.s.annotate(loops.tile, kLongestLastKey, tiles);
  }

  // Whether tensor maps can describe keys and values: rows of multiples of 16 bytes.
  bool are_boxes() const {
    constexpr int64_t kUnitBits = 128;
    const std::string keys = score_operands(c_.s, chain_).keys;
    for (const std::string& operand : {keys, value_operand(c_.s, chain_)}) {
      const Param* from = find_param(c_.s, operand);
      const auto row = from ? as_int(from->buffer->shape.back()) : std::nullopt;
      const bool fits =
          row && from->buffer->rank() <= 4 && *row * bits_of(t_.elem) % kUnitBits == 0;
      if (!fits) return false;
    }
    return true;
  }

  // The block that copies an operand to shared memory under a loop, in rows of `columns` elements;
  // the padding block if there is one. Rows are cut into consecutive swizzle atoms.
  Block copy_of(const Block& reader, const std::string& operand, int64_t columns, const Loop& at) {
    const bool padded = !find_param(c_.s, operand);
    Block copy =
        padded ? gpu_writer(c_.s, operand) : c_.s.cache_read(reader, operand, Scope::Shared);
    if (padded) c_.s.set_scope(operand, Scope::Shared);
    const std::string shared = c_.s.output(copy)->name;
    const int64_t span = span_of_row(columns, t_.elem);
    if (span < columns) {
      const int rank = c_.s.output(copy)->rank();
      const IndexMap map = IndexMap::make(rank, [&](const std::vector<Var>& x) {
        std::vector<Expr> out(x.begin(), x.end() - 2);
        out.push_back(floordiv(x.back(), span));
        out.push_back(x[x.size() - 2]);
        out.push_back(floormod(x.back(), span));
        return out;
      });
      c_.s.transform_layout(shared, map);
      c_.s.transform_block_layout(copy, map);
    }
    c_.s.compute_at(copy, at);
    return copy;
  }

  void bring(const Block& copy) {
    if (gpu_copies_boxes(copies_)) return gpu_copy_boxes(c_, c_.s.output(copy)->name);
    share(copy);
  }

  // Copies the elements by all threads in turns, as 16-byte vectors. Each thread copies its whole
  // share in one loop: between two thread loops over one array there would be a barrier.
  void share(const Block& copy) {
    const Param& from = *find_param(c_.s, inputs_of(c_.s.node(copy)).front());
    const int64_t vector = gpu_vector(c_, copy, largest_extent(c_.s, from.buffer->shape.back()));
    std::vector<Loop> loops = own_loops(c_.s, copy);
    const Loop of_span = gpu_fused(c_, {loops.end() - 2, loops.end()});
    const Loop spans = gpu_fused(c_, {loops.begin(), loops.end() - 2});
    const int64_t pieces = as_int(c_.s.node(of_span).extent).value() / vector;
    int64_t threads = std::min(tile_.threads(), pieces);
    while (pieces % threads != 0) --threads;
    std::vector<Loop> parts = c_.s.split(of_span, {-1, threads, vector});
    c_.s.reorder({parts[1], spans, parts[0], parts[2]});
    c_.s.bind(parts[1], ForKind::ThreadX);
    c_.s.unroll(spans);
    c_.s.unroll(parts[0]);
    c_.s.vectorize(parts[2]);
  }

  void lay_out(const std::optional<Block>& held) {
    gpu_lay_out_sums(c_, chain_.scores, kWarpRows);
    gpu_lay_out_sums(c_, chain_.product, kWarpRows);
    std::vector<Block> operands = {chain_.weights};
    if (held) operands.push_back(*held);
    for (const Block& b : operands) {
      const int rank = c_.s.output(b)->rank();
      gpu_lay_out(c_, c_.s.output(b)->name, t_.row(chain_.columns).a_of_warp(), rank - 2, rank - 1);
    }
  }

  // Marks the loops over rows, columns and k as instructions, initialized in memory or registers.
  // The k of scores runs over swizzle atoms.
  void multiply(const Block& block, int64_t columns) {
    const Instruction& row = t_.row(columns);
    std::vector<Loop> loops = own_loops(c_.s, block);
    const size_t n = loops.size();
    const int64_t terms = block == chain_.scores ? t_.terms : tile_.keys;
    const int64_t span = block == chain_.scores ? span_of_row(terms, t_.elem) : terms;
    std::vector<Loop> i = c_.s.split(loops[n - 3], {tile_.rows / kWarpRows, kWarpRows});
    std::vector<Loop> k = c_.s.split(loops[n - 1], {terms / span, span / row.k, row.k});
    c_.s.reorder({i[0], k[0], k[1], i[1], loops[n - 2], k[2]});
    // Decomposed before binding: the loops of the initialization are bound differently.
    if (c_.s.node(block).init.defined()) begin(block, i[0]);
    c_.s.bind(i[0], ForKind::Warp);
    // Loops of one iteration disappear.
    const Loop marked = span < terms ? k[0] : span > row.k ? k[1] : i[1];
    c_.s.annotate(marked, kMmaKey, std::string(row.name));
    if (is_behind_ && block == chain_.product) c_.s.annotate(marked, kWgmmaBehindKey, int64_t{1});
  }

  // Binds the initialization of a block's accumulators to the threads that hold them.
  void begin(const Block& block, const Loop& warp) {
    std::vector<Loop> loops = c_.s.loops(block);
    const auto around = std::find(loops.begin(), loops.end(), warp) - loops.begin();
    const Block init = c_.s.decompose_reduction(block, warp);
    loops = c_.s.loops(init);
    // Loops of one iteration are not copied.
    loops.erase(loops.begin(), loops.begin() + around);
    std::vector<Loop> j = c_.s.split(loops.back(), {-1, kFragmentColumns});
    gpu_bind_lanes(c_, accumulators(kWarpRows), loops[0], {j[0]}, loops[1], j[1]);
  }

  RuleContext& c_;
  const WgmmaChain& t_;
  const SoftmaxChain& chain_;
  WgmmaChainTile tile_{};
  std::string copies_;
  int64_t stages_ = 1;
  bool is_behind_ = false;  // software pipelining: values run behind the next scores
};

// 32-bit registers per thread: scores, weights, accumulators and others. Weights that are computed
// while others are read replace the scores one by one.
int64_t registers(const WgmmaChainTile& t, int64_t columns, int64_t element_bits) {
  const int64_t lanes = kWarpgroup / kWarpgroupRows;  // threads per row
  return (t.keys + t.keys * element_bits / 32 + columns) / lanes + kOwnRegisters;
}

// Registers that a thread may have, for the way of copying that leaves the fewest.
int64_t registers_for(const WgmmaChainTile& t, const GpuFacts& gpu) {
  const RoleBudget budget = role_budget(t.threads(), gpu);
  return budget.consumer_registers > 0 ? budget.consumer_registers : gpu.registers_per_thread;
}

}  // namespace

std::string WgmmaChainTile::name() const {
  return fmt::format("{}x{}/{}", rows, keys, kWarpgroupRows);
}

const Instruction& WgmmaChain::row(int64_t columns) const {
  return *find_instruction(fmt::format("m64n{}k16_f32_{}", columns, to_string(elem)));
}

int64_t WgmmaChain::bytes(const WgmmaChainTile& t, int64_t stages) const {
  constexpr int64_t kBarriers = 1024;  // bytes of mbarriers, with alignment
  const int64_t element = bits_of(elem) / 8;
  return (stages * t.keys * (terms + chain.columns) + t.rows * terms) * element + kBarriers;
}

bool WgmmaChain::may_overlap(const WgmmaChainTile& t, const GpuFacts& gpu) const {
  constexpr int64_t kStages = 3;
  return bytes(t, kStages) <= gpu.shared_per_block;
}

std::optional<WgmmaChain> gpu_wgmma_chain_of(RuleContext& c, const SoftmaxChain& chain) {
  const BlockNode& scores = c.s.node(chain.scores);
  const std::optional<ElemType> elem = chain_operand_elem(c.s, chain);
  const bool is_f32 = store_of(scores).buffer->elem == ElemType::f32;
  if (!elem || !is_f32 || chain.columns % kWarpRows != 0) return std::nullopt;
  const Instruction* product = row_for(*elem, chain.columns, c.input.target);
  if (!product) return std::nullopt;
  WgmmaChain t{chain, *elem, 0, {}};
  t.terms = largest_extent(c.s, scores.iters.back().extent);
  t.terms = ceil_div(t.terms, product->k) * product->k;
  const GpuFacts& gpu = c.input.target.gpu;
  for (WgmmaChainTile tile : {WgmmaChainTile{128, 128},
                              {128, 176},
                              {192, 128},
                              {128, 96},
                              {128, 80},
                              {128, 64},
                              {192, 64},
                              {64, 128},
                              {64, 64},
                              {64, 32}}) {
    // Tiles that are mostly padding are wasted work.
    const bool useful = (tile.rows <= 64 || tile.rows < 2 * chain.rows) &&
                        (tile.keys <= 32 || tile.keys < 2 * chain.keys);
    const bool fits = registers(tile, chain.columns, bits_of(*elem)) <= registers_for(tile, gpu) &&
                      t.bytes(tile, 2) <= gpu.shared_per_block &&
                      row_for(*elem, tile.keys, c.input.target);
    if (useful && fits) t.tiles.push_back(tile);
  }
  if (t.tiles.empty()) return std::nullopt;
  int64_t stacks = 1;
  for (int64_t extent : analyze(c.s, chain.result).extents) stacks *= extent;
  stacks /= chain.rows * chain.columns;
  auto first = std::find_if(t.tiles.begin(), t.tiles.end(), [&](const WgmmaChainTile& tile) {
    return stacks * ceil_div(chain.rows, tile.rows) >= gpu.sms;
  });
  if (first != t.tiles.end()) std::rotate(t.tiles.begin(), first, std::next(first));
  return t;
}

void gpu_wgmma_chain(RuleContext& c, const WgmmaChain& chain) { WgmmaChainKernel(c, chain).run(); }

}  // namespace tilewright
