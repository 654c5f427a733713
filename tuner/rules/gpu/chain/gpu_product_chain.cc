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

// Copies of the operands: of the rows of A, and in shared memory of the others.
struct ChainCopies {
  Block rows;
  std::vector<std::string> others;
};

// Pads to whole tiles, with zeros where partial tiles are multiplied, and copies the operands. All
// first products share one copy of A.
ChainCopies stage_chain(RuleContext& c, Chain& chain, const ChainAnswers& answers) {
  const ChainTile& tile = answers.tile;
  std::vector<std::string> as;  // A as each product reads it
  for (GpuSibling& p : chain.first) {
    std::string a = chain.a;
    pad_chain_product(c.s, p.block, {tile.rows, tile.step, chain.shape.row->k}, {&a, &p.b});
    as.push_back(a);
  }
  c.s.pad_values(chain.between, {tile.rows, tile.step});
  pad_chain_product(c.s, chain.second, {tile.rows, 1, tile.step}, {&chain.d});
  auto shared = [&](const Block& product, const std::string& operand) {
    return c.s.output(chain_copy_of(c, product, operand, Scope::Shared))->name;
  };
  ChainCopies staged;
  for (size_t p = 0; p < chain.first.size(); ++p) {
    const GpuSibling& product = chain.first[p];
    const Block a = chain_copy_of(c, product.block, as[p],
                                  answers.in_registers ? Scope::Register : Scope::Shared);
    if (p == 0) {
      staged.rows = a;
    } else {
      c.s.deduplicate(a, staged.rows);
    }
    staged.others.push_back(shared(product.block, product.b));
  }
  staged.others.push_back(shared(chain.second, chain.d));
  return staged;
}

// A loop over row tiles, and inside it one over tiles of hidden columns.
struct ChainLoops {
  Loop tile, step;
  Block init;  // of the second product's accumulators
};

ChainLoops place_chain(RuleContext& c, const Chain& chain, const ChainTile& tile) {
  ChainLoops loops;
  loops.tile = c.s.split(c.s.loops(chain.result)[0], {-1, tile.rows})[0];
  c.s.compute_at(chain.second, loops.tile);
  const std::vector<Loop> own = own_loops(c.s, chain.second);
  const std::vector<Loop> hidden = c.s.split(own[2], {-1, tile.step});
  loops.step = hidden[0];
  c.s.reorder({loops.step, own[0], own[1], hidden[1]});
  loops.init = c.s.decompose_reduction(chain.second, loops.step);
  c.s.compute_at(chain.between, loops.step);
  for (const GpuSibling& p : chain.first) c.s.compute_at(p.block, loops.step);
  // Bound while each block still stores its results whole: disjoint tiles cannot be recognized in
  // pieces.
  c.s.bind(loops.tile, ForKind::BlockX);
  return loops;
}

void build_product_chain(RuleContext& c, Chain chain, const ChainAnswers& answers) {
  const auto& [tile, in_registers, stages] = answers;
  const Instruction& row = *chain.shape.row;
  const ChainCopies staged = stage_chain(c, chain, answers);
  const auto [tiles, step, init] = place_chain(c, chain, tile);
  const ChainRows rows(c, tile.rows, tile.warp_rows);
  auto share = [&, threads = tile.threads()](const Block& copy) {
    share_chain_copy(c, copy, threads, std::numeric_limits<int64_t>::max());
  };
  // The rows of A are copied once for all hidden columns, to where instructions read them.
  c.s.compute_at(staged.rows, tiles);
  in_registers ? rows.hold(staged.rows, row) : share(staged.rows);
  for (const std::string& buffer : staged.others) {
    const Block copy = gpu_writer(c.s, buffer);
    c.s.compute_at(copy, step);
    share(copy);
  }
  std::vector<Block> blocks;
  for (const GpuSibling& p : chain.first) blocks.push_back(p.block);
  blocks.push_back(chain.second);
  for (const Block& p : blocks) gpu_lay_out_sums(c, p, row.m);
  rows.lay_out_operand(chain.between, row);
  for (const Block& p : blocks) rows.multiply(p, row);
  rows.bind_sums(chain.between, tile.step);
  for (const Block& b : {init, chain.result}) rows.bind_sums(b, chain.shape.columns);
  blocks.push_back(chain.between);
  for (const Block& b : blocks) c.s.set_scope(c.s.output(b)->name, Scope::Register);
  c.s.annotate(tiles, kSharedRowsKey, std::string(kSwizzled));
  if (stages > 1) c.s.annotate(step, kPipelineStagesKey, stages);
}

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
  build_product_chain(c, *chain, choose_chain_tile(c, chain->first[0].block, chain->shape, tiles));
  return true;
}

}  // namespace tilewright
