#include "tuner/rules/gpu/chain/gpu_product_chain.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/ceil_div.h"
#include "codegen/cuda/instructions/cuda_mma.h"
#include "codegen/cuda_lowering.h"
#include "ir/type.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/chain/gpu_chain_rows.h"
#include "tuner/rules/gpu/chain/gpu_chain_tiles.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_roles.h"
#include "tuner/rules/gpu/gpu_siblings.h"
#include "tuner/rules/gpu/gpu_tensor_parts.h"
#include "tuner/rules/gpu/gpu_units.h"
#include "tuner/rules/softmax_chain.h"

namespace tilewright {
namespace {

constexpr const char* kFused = "fused";

struct Chain {
  std::vector<GpuSibling> first;  // products, by block and weight
  Block between, second, result;
  std::string a, d;  // the common operand of the first products; the second's own operand
  ChainShape shape;
};

// Whether a matrix product runs over rows, columns and k in this order, with static sizes.
bool is_plain(const Schedule& s, const Block& block, const GpuRoles& roles) {
  return roles.batch.empty() && roles.i == 0 && roles.j == 1 && roles.k == 2 &&
         gpu_is_static(analyze(s, block));
}

std::optional<Chain> find_chain(const Schedule& s, const Target& target) {
  constexpr size_t kOthers = 3;  // blocks after the first products
  const std::vector<Block> blocks = s.blocks();
  if (blocks.size() <= kOthers) return std::nullopt;
  const std::vector<Block> products(blocks.begin(), blocks.end() - kOthers);
  Chain chain;
  chain.between = blocks[products.size()];
  chain.second = blocks[products.size() + 1];
  chain.result = blocks.back();
  const auto first = gpu_siblings_of(s, products), second = gpu_roles_of(s, chain.second);
  const bool are_plain = first && second && first->siblings.size() + 1 == products.size() &&
                         is_plain(s, products[0], *first) && is_plain(s, chain.second, *second);
  if (!are_plain) return std::nullopt;
  const bool follows = s.consumers(products[0]).at(0) == chain.between &&
                       gpu_taker_of(s, chain.second) == chain.result &&
                       second->a == s.output(chain.between)->name && find_param(s, second->b) &&
                       covers_iterators(s.node(chain.result), s.output(chain.second)->name) &&
                       is_output(s, s.output(chain.result)->name);
  if (!follows) return std::nullopt;
  const BlockNode &x = s.node(products[0]), &y = s.node(chain.second);
  const ElemType elem = read_elem(x, first->a), sums = s.output(products[0])->elem;
  const bool is_one_type = read_elem(x, first->b) == elem && read_elem(y, second->b) == elem &&
                           s.output(chain.between)->elem == elem &&
                           s.output(chain.second)->elem == sums;
  ChainShape& shape = chain.shape;
  if (is_one_type) shape.row = chained_row(elem, sums, target);
  if (!shape.row) return std::nullopt;
  const std::vector<int64_t> sizes = analyze(s, products[0]).extents;
  chain.first = first->siblings;
  chain.first.insert(chain.first.begin(), {products[0], first->b});
  chain.a = first->a;
  chain.d = second->b;
  shape.rows = sizes[0];
  shape.between = sizes[1];
  shape.terms = round_up(sizes[2], shape.row->k);
  shape.columns = analyze(s, chain.second).extents[1];
  shape.products = static_cast<int64_t>(chain.first.size());
  const bool has_rows = shape.rows > 1 && shape.columns % (2 * kFragmentColumns) == 0;
  return has_rows ? std::optional(chain) : std::nullopt;
}

std::vector<ChainTile> tiles_for(const Chain& chain, const GpuFacts& gpu) {
  const std::vector<ChainTile> tiles = {{128, 64, 16}, {128, 32, 16}, {128, 64, 32}, {64, 64, 16},
                                        {64, 32, 16},  {32, 64, 16},  {32, 32, 16},  {32, 16, 16}};
  return chain_tiles(chain.shape, tiles, 16, gpu);
}

class ProductChainKernel {
 public:
  ProductChainKernel(RuleContext& c, const Chain& chain, std::vector<ChainTile> tiles)
      : c_(c), chain_(chain), row_(*chain.shape.row), tiles_(std::move(tiles)) {}

  void run() {
    answers_ = choose_chain_tile(c_, chain_.first[0].block, chain_.shape, tiles_);
    pad();
    stage();
    place();
    copy_rows();
    std::vector<Block> products;
    for (const GpuSibling& p : chain_.first) products.push_back(p.block);
    products.push_back(chain_.second);
    for (const std::string& buffer : shared_) {
      const Block copy = gpu_writer(c_.s, buffer);
      c_.s.compute_at(copy, step_);
      share(copy);
    }
    for (const Block& p : products) gpu_lay_out_sums(c_, p, row_.m);
    rows().lay_out_operand(chain_.between, row_);
    for (const Block& p : products) rows().multiply(p, row_);
    rows().bind_sums(chain_.between, answers_.tile.step);
    for (const Block& b : {init_, chain_.result}) rows().bind_sums(b, chain_.shape.columns);
    products.push_back(chain_.between);
    for (const Block& b : products) c_.s.set_scope(c_.s.output(b)->name, Scope::Register);
    c_.s.annotate(tile_loop_, kSharedRowsKey, std::string(kSwizzled));
    if (answers_.stages > 1) c_.s.annotate(step_, kPipelineStagesKey, answers_.stages);
  }

 private:
  ChainRows rows() { return {c_, answers_.tile.rows, answers_.tile.warp_rows}; }

  // Pads to whole tiles, with zeros where partial tiles are multiplied.
  void pad() {
    const std::string a = chain_.a;
    for (GpuSibling& p : chain_.first) {
      chain_.a = a;
      pad_chain_product(c_.s, p.block, {answers_.tile.rows, answers_.tile.step, row_.k},
                        {&chain_.a, &p.b});
      as_.push_back(chain_.a);
    }
    c_.s.pad_values(chain_.between, {answers_.tile.rows, answers_.tile.step});
    pad_chain_product(c_.s, chain_.second, {answers_.tile.rows, 1, answers_.tile.step},
                      {&chain_.d});
  }

  // Copies the operands. All first products share one copy of A, where instructions read it.
  void stage() {
    for (size_t p = 0; p < chain_.first.size(); ++p) {
      const Block a = chain_copy_of(c_, chain_.first[p].block, as_[p],
                                    answers_.in_registers ? Scope::Register : Scope::Shared);
      if (p == 0) {
        rows_ = a;
      } else {
        c_.s.deduplicate(a, rows_);
      }
      shared_.push_back(
          c_.s.output(chain_copy_of(c_, chain_.first[p].block, chain_.first[p].b, Scope::Shared))
              ->name);
    }
    shared_.push_back(c_.s.output(chain_copy_of(c_, chain_.second, chain_.d, Scope::Shared))->name);
  }

  // Makes a loop over row tiles, and inside it one over tiles of hidden columns.
  void place() {
    tile_loop_ = c_.s.split(c_.s.loops(chain_.result)[0], {-1, answers_.tile.rows})[0];
    c_.s.compute_at(chain_.second, tile_loop_);
    const std::vector<Loop> own = own_loops(c_.s, chain_.second);
    const std::vector<Loop> hidden = c_.s.split(own[2], {-1, answers_.tile.step});
    step_ = hidden[0];
    c_.s.reorder({step_, own[0], own[1], hidden[1]});
    init_ = c_.s.decompose_reduction(chain_.second, step_);
    c_.s.compute_at(chain_.between, step_);
    for (const GpuSibling& p : chain_.first) c_.s.compute_at(p.block, step_);
    // Bound while each block still stores its results whole: disjoint tiles cannot be recognized in
    // pieces.
    c_.s.bind(tile_loop_, ForKind::BlockX);
  }

  // Copies the rows of A once for all hidden columns, to where instructions read them.
  void copy_rows() {
    c_.s.compute_at(rows_, tile_loop_);
    answers_.in_registers ? rows().hold(rows_, row_) : share(rows_);
  }

  void share(const Block& copy) {
    share_chain_copy(c_, copy, answers_.tile.threads(), std::numeric_limits<int64_t>::max());
  }

  RuleContext& c_;
  Chain chain_;
  const Instruction& row_;
  std::vector<ChainTile> tiles_;
  ChainAnswers answers_ = {};
  Block init_, rows_;                     // initializes the accumulators; copies A
  std::vector<std::string> as_, shared_;  // A as each product reads it; the other operands' tiles
  Loop tile_loop_, step_;
};

}  // namespace

bool gpu_product_chain(RuleContext& c) {
  const GpuFacts& gpu = c.input.target.gpu;
  const std::optional<Chain> chain = find_chain(c.s, c.input.target);
  if (!chain) return false;
  const std::vector<ChainTile> tiles = tiles_for(*chain, gpu);
  if (tiles.empty()) return false;
  std::vector<std::string> ways = {kFused, kApart};
  // One block per row tile: with few tiles most of the chip would be idle.
  if (2 * chain->shape.blocks(tiles.front()) < gpu.sms) std::swap(ways[0], ways[1]);
  if (c.t.choose(chain->first[0].block.name + ".chain", ways) == kApart) return false;
  ProductChainKernel(c, *chain, tiles).run();
  return true;
}

}  // namespace tilewright
