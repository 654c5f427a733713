#include "tuner/rules/gpu/chain/gpu_tensor_chain.h"

#include <algorithm>
#include <optional>

#include "base/ceil_div.h"
#include "codegen/cuda/cuda_masks.h"
#include "codegen/cuda/instructions/cuda_mma.h"
#include "codegen/cuda_lowering.h"
#include "ir/type.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/chain/gpu_chain_rows.h"
#include "tuner/rules/gpu/chain/gpu_softmax_parts.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_tensor_parts.h"
#include "tuner/rules/gpu/gpu_units.h"

namespace tilewright {
namespace {

class TensorChainKernel {
 public:
  TensorChainKernel(RuleContext& c, const TensorChain& t)
      : c_(c), t_(t), row_(*t.shape.row), chain_(t.chain) {}

  void run() {
    choose();
    c_.s.store_rounded(chain_.weights);
    pad_softmax_chain(c_.s, chain_, tile_.rows, tile_.step * parts_, row_.k);
    inline_makers();
    const ScoreOperands operands = score_operands(c_.s, chain_);
    std::optional<KeyParts> parts;
    if (parts_ > 1) parts = split_keys(c_.s, chain_, parts_);
    OnlineLoops loops = parts ? place_key_parts(c_.s, chain_, *parts, tile_.rows, tile_.step)
                              : place_softmax_chain(c_.s, chain_, tile_.rows, tile_.step);
    // Bound while each block still stores its results whole: disjoint tiles cannot be recognized in
    // pieces.
    c_.s.bind(loops.tile, ForKind::BlockX);
    copy_rows(operands.rows, loops.tile);
    for (const auto& [reader, operand] :
         {std::pair{chain_.scores, operands.keys}, {chain_.product, value_operand(c_.s, chain_)}}) {
      share(copy_of(reader, operand, Scope::Shared, loops.step));
    }
    lay_out();
    for (const Block& b : {chain_.scores, chain_.product}) chain_rows().multiply(b, row_);
    chain_rows().bind_softmax(chain_, loops.made, tile_.step);
    if (parts) {
      for (const Block& b : parts->left) chain_rows().bind_values(b);
    }
    c_.s.annotate(loops.tile, kSharedRowsKey, std::string(kSwizzled));
    if (stages_ > 1) c_.s.annotate(loops.step, kPipelineStagesKey, stages_);
    c_.s.annotate(loops.step, kMasksApartKey, int64_t{1});
    if (parts) gpu_join_key_parts(c_, *parts);
  }

 private:
  ChainRows chain_rows() { return {c_, tile_.rows, tile_.warp_rows}; }

  void choose() {
    const ChainAnswers answers = choose_chain_tile(c_, chain_.top, t_.shape, t_.tiles);
    tile_ = answers.tile;
    in_registers_ = answers.in_registers;
    stages_ = answers.stages;
    parts_ = gpu_choose_key_parts(c_, chain_, t_.shape.blocks(tile_), tile_.step, true);
  }

  // Inlines blocks that make an operand (look up key pages, pack heads) into the block that pads
  // it, if any.
  void inline_makers() {
    const ScoreOperands operands = score_operands(c_.s, chain_);
    for (const Block& b : chain_.operands) {
      const std::string made = c_.s.output(b)->name;
      const bool read =
          made == operands.rows || made == operands.keys || made == value_operand(c_.s, chain_);
      if (!read) c_.s.compute_inline(b);
    }
  }

  // The block that copies an operand under a loop; the block that makes or pads it, if there is
  // one.
  Block copy_of(const Block& reader, const std::string& operand, Scope scope, const Loop& at) {
    const bool made = !find_param(c_.s, operand);
    Block copy = made ? gpu_writer(c_.s, operand) : c_.s.cache_read(reader, operand, scope);
    if (made) c_.s.set_scope(operand, scope);
    c_.s.compute_at(copy, at);
    return copy;
  }

  // Copies the rows of A once for all keys, to where instructions read them.
  void copy_rows(const std::string& rows, const Loop& tile) {
    const Block copy =
        copy_of(chain_.scores, rows, in_registers_ ? Scope::Register : Scope::Shared, tile);
    in_registers_ ? chain_rows().hold(copy, row_) : share(copy);
  }

  // The number of contiguous elements in the source of a copy: its largest input. Others are lengths,
  // tables, and scales of codes.
  int64_t row_extent(const Block& copy) const {
    int64_t row = 1, largest = 0;
    for (const std::string& name : inputs_of(c_.s.node(copy))) {
      const Buffer& buffer = find_param(c_.s, name)->buffer;
      int64_t elements = 1;
      for (const Expr& extent : buffer->shape) elements *= largest_extent(c_.s, extent);
      if (elements <= largest) continue;
      largest = elements;
      row = largest_extent(c_.s, buffer->shape.back());
    }
    return row;
  }

  // Copies the elements by all threads in turns, as 16-byte vectors.
  void share(const Block& copy) {
    constexpr int64_t kAccessBits = 128;
    int64_t vector = kAccessBits / bits_of(c_.s.output(copy)->elem);
    while (row_extent(copy) % vector != 0) vector /= 2;
    std::vector<Loop> loops = own_loops(c_.s, copy);
    const Loop all = gpu_fused(c_, {loops[loops.size() - 2], loops.back()});
    int64_t threads = tile_.threads();
    while (as_int(c_.s.node(all).extent).value() / vector % threads != 0) threads /= 2;
    std::vector<Loop> parts = c_.s.split(all, {-1, threads, vector});
    // With few threads each copies many vectors; not all their addresses are kept in registers.
    constexpr int64_t kUnrolled = 8;
    const bool many = as_int(c_.s.node(parts[0]).extent).value() > kUnrolled;
    c_.s.unroll(many ? c_.s.split(parts[0], {-1, kUnrolled})[1] : parts[0]);
    c_.s.bind(parts[1], ForKind::ThreadX);
    c_.s.vectorize(parts[2]);
  }

  void lay_out() {
    gpu_lay_out_sums(c_, chain_.scores, row_.m);
    gpu_lay_out_sums(c_, chain_.product, row_.m);
    chain_rows().lay_out_operand(chain_.weights, row_);
  }

  RuleContext& c_;
  const TensorChain& t_;
  const Instruction& row_;
  SoftmaxChain chain_;  // one part's chain after split-KV
  ChainTile tile_{};
  int64_t stages_ = 1, parts_ = 1;
  bool in_registers_ = true;
};

}  // namespace

std::optional<TensorChain> gpu_tensor_chain_of(RuleContext& c, const SoftmaxChain& chain) {
  const BlockNode& scores = c.s.node(chain.scores);
  const std::optional<ElemType> elem = chain_operand_elem(c.s, chain);
  TensorChain t{chain, {}, {}};
  ChainShape& shape = t.shape;
  if (elem) shape.row = chained_row(*elem, store_of(scores).buffer->elem, c.input.target);
  if (!shape.row || chain.columns % (2 * kFragmentColumns) != 0) return std::nullopt;
  shape.rows = chain.rows;
  shape.between = chain.keys;
  shape.terms = round_up(largest_extent(c.s, scores.iters.back().extent), shape.row->k);
  shape.columns = chain.columns;
  for (int64_t extent : analyze(c.s, chain.top).extents) shape.stacks *= extent;
  shape.stacks /= chain.rows * chain.keys;
  std::vector<ChainTile> tiles = {{128, 64, 16},  {64, 64, 16}, {128, 64, 32}, {64, 128, 16},
                                  {128, 128, 16}, {64, 32, 16}, {32, 64, 16},  {32, 32, 16},
                                  {32, 16, 16},   {16, 32, 16}, {16, 64, 16},  {16, 128, 16},
                                  {16, 16, 16}};
  // Tiles with fewer rows than needed would load keys more often. For few rows the lowest tiles
  // come first.
  auto is_low = [](const ChainTile& tile) { return tile.rows == 16; };
  if (chain.rows > 32) std::erase_if(tiles, is_low);
  if (chain.rows <= 16) std::stable_partition(tiles.begin(), tiles.end(), is_low);
  t.tiles = chain_tiles(shape, std::move(tiles), 32, c.input.target.gpu);
  return t.tiles.empty() ? std::nullopt : std::optional(t);
}

void gpu_tensor_chain(RuleContext& c, const TensorChain& chain) {
  TensorChainKernel(c, chain).run();
}

}  // namespace tilewright
