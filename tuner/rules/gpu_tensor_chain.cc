#include "tuner/rules/gpu_tensor_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "codegen/cuda_lowering.h"
#include "codegen/cuda_masks.h"
#include "codegen/cuda_mma.h"
#include "ir/type.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu.h"
#include "tuner/rules/gpu_chain_rows.h"
#include "tuner/rules/gpu_packed_layout.h"
#include "tuner/rules/gpu_softmax_parts.h"
#include "tuner/rules/gpu_tensor_parts.h"

namespace tilewright {
namespace {

constexpr int64_t kColumns = 8;   // of an instruction's sums
constexpr int64_t kRegister = 4;  // bytes
constexpr int64_t kOwn = 40;      // registers for addresses, loops, maxima and sums
constexpr const char* kInRegisters = "registers";

class TensorChainKernel {
 public:
  TensorChainKernel(RuleContext& c, const TensorChain& t)
      : c_(c), t_(t), row_(*t.row), chain_(t.chain) {}

  void run() {
    choose();
    c_.s.store_rounded(chain_.weights);
    pad_softmax_chain(c_.s, chain_, tile_.rows, tile_.keys * parts_, row_.k);
    inline_makers();
    const ScoreOperands operands = score_operands(c_.s, chain_);
    std::optional<KeyParts> parts;
    if (parts_ > 1) parts = split_keys(c_.s, chain_, parts_);
    OnlineLoops loops = parts ? place_key_parts(c_.s, chain_, *parts, tile_.rows, tile_.keys)
                              : place_softmax_chain(c_.s, chain_, tile_.rows, tile_.keys);
    // While each block stores what it stores as it is: that tiles are apart is not seen in pieces.
    c_.s.bind(loops.tile, ForKind::BlockX);
    copy_rows(operands.rows, loops.tile);
    for (const auto& [reader, operand] :
         {std::pair{chain_.scores, operands.keys}, {chain_.product, value_operand(c_.s, chain_)}}) {
      share(copy_of(reader, operand, Scope::Shared, loops.step));
    }
    lay_out();
    for (const Block& b : {chain_.scores, chain_.product}) chain_rows().multiply(b, row_);
    chain_rows().bind_softmax(chain_, loops.made, tile_.keys);
    if (parts) {
      for (const Block& b : parts->left) chain_rows().bind_values(b);
    }
    c_.s.annotate(loops.tile, kSharedRowsKey, std::string(kSwizzled));
    if (stages_ > 1) c_.s.annotate(loops.step, "pipeline_stages", stages_);
    c_.s.annotate(loops.step, kMasksApartKey, int64_t{1});
    if (parts) gpu_join_key_parts(c_, *parts);
  }

 private:
  std::string result_of(const Block& b) const { return store_of(c_.s.node(b)).buffer->name; }
  ChainRows chain_rows() { return {c_, tile_.rows, tile_.warp_rows}; }
  std::string key(const char* what) const { return chain_.top.name + "." + what; }

  void choose() {
    std::vector<std::string> names;
    for (const TensorChainTile& t : t_.tiles) names.push_back(t.name());
    const std::string name = c_.t.choose(key("tile"), names);
    tile_ = *std::find_if(t_.tiles.begin(), t_.tiles.end(),
                          [&](const TensorChainTile& t) { return t.name() == name; });
    const GpuFacts& gpu = c_.input.target.gpu;
    std::vector<std::string> places = {kInRegisters, "shared"};
    if (t_.registers(tile_, true) > gpu.registers_per_thread) places.erase(places.begin());
    in_registers_ = c_.t.choose(key("rows"), places) == kInRegisters;
    std::vector<int64_t> depths = {2, 3, 1};
    if (!gpu.has_async_copy()) depths = {1};
    std::erase_if(depths, [&](int64_t n) {
      return n > 1 && t_.bytes(tile_, n, in_registers_) > gpu.shared_per_block;
    });
    stages_ = c_.t.choose(key("stages"), depths);
    parts_ = gpu_choose_key_parts(c_, chain_, t_.blocks(tile_), tile_.keys, true);
  }

  // What makes an operand (looks keys up in pages, packs heads) does so as it is padded, where it is.
  void inline_makers() {
    const ScoreOperands operands = score_operands(c_.s, chain_);
    for (const Block& b : chain_.operands) {
      const std::string made = result_of(b);
      const bool read =
          made == operands.rows || made == operands.keys || made == value_operand(c_.s, chain_);
      if (!read) c_.s.compute_inline(b);
    }
  }

  // The block that copies an operand under a loop: the one that makes or pads it, where there is one.
  Block copy_of(const Block& reader, const std::string& operand, Scope scope, const Loop& at) {
    const bool made = !find_param(c_.s, operand);
    Block copy = made ? gpu_writer(c_.s, operand) : c_.s.cache_read(reader, operand, scope);
    if (made) c_.s.set_scope(operand, scope);
    c_.s.compute_at(copy, at);
    return copy;
  }

  // The rows' elements where instructions take them from, once for all keys.
  void copy_rows(const std::string& rows, const Loop& tile) {
    const Block copy =
        copy_of(chain_.scores, rows, in_registers_ ? Scope::Register : Scope::Shared, tile);
    if (!in_registers_) return share(copy);
    lay_out_operand(copy);
    std::vector<Loop> loops = c_.s.loops(copy);
    std::vector<Loop> i = chain_rows().split(loops[loops.size() - 2]);
    std::vector<Loop> k = c_.s.split(loops.back(), {-1, kColumns});
    gpu_bind_lanes(c_, i[0], {i[1], k[0]}, i[2], k[1], row_.m);
  }

  // Elements that lie side by side in what a copy is of.
  int64_t row_extent(const Block& copy) const {
    const BlockNode& n = c_.s.node(copy);
    for (const std::string& name : inputs_of(n)) {
      const Param* from = find_param(c_.s, name);
      // Other inputs say where the elements lie.
      if (is_float(from->buffer->elem)) return largest_extent(c_.s, from->buffer->shape.back());
    }
    return 1;
  }

  // The elements of a copy by all threads in turns, 16 bytes at a time.
  void share(const Block& copy) {
    constexpr int64_t kAccessBits = 128;
    int64_t vector = kAccessBits / bits_of(store_of(c_.s.node(copy)).buffer->elem);
    while (row_extent(copy) % vector != 0) vector /= 2;
    std::vector<Loop> loops = own_loops(c_.s, copy);
    const Loop all = gpu_fused(c_, {loops[loops.size() - 2], loops.back()});
    int64_t threads = tile_.threads();
    while (as_int(c_.s.node(all).extent).value() / vector % threads != 0) threads /= 2;
    std::vector<Loop> parts = c_.s.split(all, {-1, threads, vector});
    // Few threads have many pieces each, whose addresses are not all kept in registers.
    constexpr int64_t kUnrolled = 8;
    const bool many = as_int(c_.s.node(parts[0]).extent).value() > kUnrolled;
    c_.s.unroll(many ? c_.s.split(parts[0], {-1, kUnrolled})[1] : parts[0]);
    c_.s.bind(parts[1], ForKind::ThreadX);
    c_.s.vectorize(parts[2]);
  }

  // What a block stores as operand A has its elements.
  void lay_out_operand(const Block& block) {
    const int rank = store_of(c_.s.node(block)).buffer->rank();
    c_.s.transform_layout(result_of(block), fragment_map(row_, rank, rank - 2, rank - 1));
  }

  void lay_out() {
    gpu_lay_out_sums(c_, chain_.scores, row_.m);
    gpu_lay_out_sums(c_, chain_.product, row_.m);
    lay_out_operand(chain_.weights);
  }

  RuleContext& c_;
  const TensorChain& t_;
  const MmaRow& row_;
  SoftmaxChain chain_;  // of a part of the keys, once these are split
  TensorChainTile tile_{};
  int64_t stages_ = 1, parts_ = 1;
  bool in_registers_ = true;
};

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::string TensorChainTile::name() const { return fmt::format("{}x{}/{}", rows, keys, warp_rows); }

int64_t TensorChain::blocks(const TensorChainTile& t) const {
  return stacks * ceil_div(chain.rows, t.rows);
}

int64_t TensorChain::registers(const TensorChainTile& t, bool rows_in_registers) const {
  constexpr int64_t kLanes = 32;
  const int64_t packed = row->packed();
  const int64_t columns = t.keys + t.keys / packed + chain.columns;
  return t.warp_rows * (columns + (rows_in_registers ? terms / packed : 0)) / kLanes + kOwn;
}

int64_t TensorChain::bytes(const TensorChainTile& t, int64_t stages, bool rows_in_registers) const {
  constexpr int64_t kPadding = 16;  // of a row
  const int64_t element = kRegister / row->packed();
  const int64_t keys = stages * t.keys * ((terms + chain.columns) * element + 2 * kPadding);
  return keys + (rows_in_registers ? 0 : t.rows * (terms * element + kPadding));
}

std::optional<TensorChain> gpu_tensor_chain_of(RuleContext& c, const SoftmaxChain& chain) {
  const BlockNode& scores = c.s.node(chain.scores);
  const std::optional<ElemType> elem = chain_operand_elem(c.s, chain);
  TensorChain t{chain, nullptr, 0, 1, {}};
  if (elem) t.row = chained_row(*elem, store_of(scores).buffer->elem, c.input.target);
  if (!t.row) return std::nullopt;
  t.terms = largest_extent(c.s, scores.iters.back().extent);
  if (chain.columns % (2 * kColumns) != 0) return std::nullopt;
  t.terms = ceil_div(t.terms, t.row->k) * t.row->k;
  const GpuFacts& gpu = c.input.target.gpu;
  const int64_t stages = gpu.has_async_copy() ? 2 : 1;
  for (TensorChainTile tile : {TensorChainTile{128, 64, 16},
                               {64, 64, 16},
                               {128, 64, 32},
                               {64, 128, 16},
                               {128, 128, 16},
                               {64, 32, 16},
                               {32, 64, 16},
                               {32, 32, 16},
                               {32, 16, 16},
                               {16, 32, 16},
                               {16, 64, 16},
                               {16, 128, 16},
                               {16, 16, 16}}) {
    // What is all padding is work in vain, and tiles lower than need be bring keys in more often.
    const bool useful = (tile.rows <= 32 || tile.rows < 2 * chain.rows) &&
                        (tile.rows > 16 || chain.rows <= 32) &&
                        (tile.keys <= 32 || tile.keys < 2 * chain.keys);
    const bool fits = t.registers(tile, false) <= gpu.registers_per_thread &&
                      t.bytes(tile, stages, false) <= gpu.shared_per_block;
    if (useful && fits) t.tiles.push_back(tile);
  }
  if (t.tiles.empty()) return std::nullopt;
  if (chain.rows <= 16) {
    std::stable_partition(t.tiles.begin(), t.tiles.end(),
                          [](const TensorChainTile& tile) { return tile.rows == 16; });
  }
  t.stacks = 1;
  for (int64_t extent : analyze(c.s, chain.top).extents) t.stacks *= extent;
  t.stacks /= chain.rows * chain.keys;
  auto first = std::find_if(t.tiles.begin(), t.tiles.end(),
                            [&](const TensorChainTile& tile) { return t.blocks(tile) >= gpu.sms; });
  if (first != t.tiles.end()) std::rotate(t.tiles.begin(), first, std::next(first));
  return t;
}

void gpu_tensor_chain(RuleContext& c, const TensorChain& chain) {
  TensorChainKernel(c, chain).run();
}

}  // namespace tilewright
