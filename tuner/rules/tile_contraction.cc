// Multi-level tiling of contractions.
#include <algorithm>
#include <map>
#include <numeric>

#include "ir/simplify.h"
#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/rules.h"

namespace tilewright {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The factors of one iterator, outermost first: S0 S1 S2 S3 for a spatial one, R0 R1 R2 for a
// reduction (R2 is unrolled).
struct Tiles {
  std::vector<int64_t> factors;
  std::vector<Loop> loops;
};

constexpr int64_t kMostUnrolled = 128;  // vector operations in one copy of the innermost code

constexpr size_t kS0 = 0, kS1 = 1, kS2 = 2, kS3 = 3;
constexpr size_t kR0 = 0, kR1 = 1, kR2 = 2;

// Options up to `limit`, the preferred one first.
std::vector<int64_t> up_to(std::vector<int64_t> options, int64_t limit, int64_t preferred) {
  std::erase_if(options, [&](int64_t o) { return o > limit; });
  if (options.empty()) options = {1};
  int64_t best = options[0];
  for (int64_t o : options) {
    if (o <= preferred && (best > preferred || o > best)) best = o;
  }
  std::erase(options, best);
  options.insert(options.begin(), best);
  return options;
}

class ContractionTiler {
 public:
  ContractionTiler(RuleContext& c, Block block)
      : c_(c), block_(std::move(block)), facts_(analyze(c.s, block_)) {
    for (const IterVar& iter : node().iters) names_.push_back(iter.var.name());
  }

  void run() {
    choose_tiles();
    pack_weights();
    split_and_reorder();
    place_producers();
    fuse_consumer();
    finish_inner_loops();
  }

 private:
  const BlockNode& node() { return c_.s.node(block_); }
  std::string key(const std::string& what) { return block_.name + "." + what; }
  std::string key(int iter, const std::string& what) { return key(names_[iter] + "." + what); }

  // Decisions ------------------------------------------------------------------------------------
  void choose_tiles() {
    vector_iter_ = pick_vector_iter();
    int64_t budget = accumulator_budget();
    choose_registers(budget);
    for (int i : facts_.spatial) choose_outer_levels(i);
    choose_reduction();
  }

  // Accumulators that fit the registers beside operands.
  int64_t accumulator_budget() { return c_.input.target.vector_registers >= 32 ? 28 : 12; }

  int64_t lanes() {
    int bits = bits_of(store_of(node()).buffer->elem);
    return std::max(1, c_.input.target.lanes(std::max(bits, 8)));
  }

  // The iterator whose neighbours are neighbours in the output.
  int pick_vector_iter() {
    const StoreNode& store = store_of(node());
    if (!store.indices.empty()) {
      int last = plain_iterator(node(), store.indices.back());
      if (last >= 0) return last;
    }
    return facts_.spatial.back();
  }

  void choose_registers(int64_t budget) {
    int64_t extent = facts_.extents[vector_iter_];
    int64_t width = lanes();
    int64_t most = std::max<int64_t>(1, ceil_div(extent, width));
    bool only_axis = other_work() == 1;  // nothing else to block: wide tiles hide latency
    int64_t vectors =
        c_.t.choose(key(vector_iter_, "vectors"),
                    up_to({1, 2, 3, 4, 6, 8}, std::min<int64_t>(most, 8), only_axis ? 8 : 4));
    tiles_[vector_iter_].factors = {1, 1, 1, std::min(width * vectors, round_up_lanes(extent))};
    registers_ = vectors;
    int64_t left = std::max<int64_t>(1, budget / vectors);
    for (size_t n = facts_.spatial.size(); n-- > 0;) {
      int i = facts_.spatial[n];
      if (i == vector_iter_) continue;
      int64_t rows = 1;
      if (facts_.extents[i] > 1 && left > 1) {
        rows = c_.t.choose(key(i, "rows"), up_to({1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 28},
                                                 std::min(left, facts_.extents[i]), left));
      }
      tiles_[i].factors = {1, 1, 1, rows};
      registers_ *= rows;
      left = std::max<int64_t>(1, left / rows);
    }
  }

  // A power of two of lanes that covers a short extent, so that narrow outputs use narrow vectors.
  int64_t round_up_lanes(int64_t extent) {
    int64_t width = lanes();
    if (extent >= width) return INT64_MAX;
    int64_t p = 1;
    while (p < extent) p *= 2;
    return p;
  }

  int64_t other_work() {
    int64_t work = 1;
    for (int i : facts_.spatial) work *= i == vector_iter_ ? 1 : facts_.extents[i];
    return work;
  }

  void choose_outer_levels(int i) {
    std::vector<int64_t>& f = tiles_[i].factors;
    int64_t left = ceil_div(facts_.extents[i], f[kS3]);
    if (left > 1) {
      f[kS2] = c_.t.choose(key(i, "s2"),
                           up_to({1, 2, 3, 4, 6, 8, 12, 16, 32}, left, i == vector_iter_ ? 1 : 8));
      left = ceil_div(left, f[kS2]);
    }
    if (left > 1) {
      f[kS1] = c_.t.choose(key(i, "s1"), up_to({1, 2, 4, 8, 16}, left, 1));
      left = ceil_div(left, f[kS1]);
    }
    f[kS0] = left;
  }

  // The longest reduction is cut for the cache and unrolled; the others run whole around it.
  void choose_reduction() {
    int longest = facts_.reduce[0];
    for (int i : facts_.reduce) {
      if (facts_.extents[i] >= facts_.extents[longest]) longest = i;
      tiles_[i].factors = {1, facts_.extents[i], 1};
    }
    int64_t extent = facts_.extents[longest];
    // A remainder of the reduction costs another copy of the innermost code: chunks that divide.
    std::vector<int64_t> chunks = {extent};
    for (int64_t pieces = 2; extent / pieces >= 64 && chunks.size() < 6; ++pieces) {
      if (extent % pieces == 0) chunks.push_back(extent / pieces);
    }
    int64_t chunk = c_.t.choose(key(longest, "chunk"), chunks);
    std::vector<int64_t> unrolls = {1};
    for (int64_t u : {2, 4}) {
      if (chunk % u == 0 && registers_ * u <= kMostUnrolled) unrolls.push_back(u);
    }
    int64_t unroll = c_.t.choose(key(longest, "unroll"), unrolls);
    tiles_[longest].factors = {ceil_div(extent, chunk), ceil_div(chunk, unroll), unroll};
    for (int i : facts_.reduce) {
      if (i == longest || facts_.extents[i] < 2 || facts_.extents[i] > 7) continue;
      int64_t copies = registers_ * unroll * facts_.extents[i];
      if (copies > kMostUnrolled) continue;
      if (c_.t.choose(key(i, "whole"), std::vector<std::string>{"loop", "unroll"}) == "unroll") {
        tiles_[i].factors = {1, 1, facts_.extents[i]};
        unroll *= facts_.extents[i];
      }
    }
  }

  // Weights --------------------------------------------------------------------------------------
  bool is_weight(const std::string& name) {
    for (const Param& p : c_.s.program().params) {
      if (p.buffer->name == name) return p.role == ParamRole::Weight;
    }
    return false;
  }

  // The order in which the loops stand: (level, iterator) pairs, outermost first.
  std::vector<std::pair<size_t, int>> nest() {
    std::vector<std::pair<size_t, int>> order;
    auto spatial = [&](size_t level, bool reversed) {
      std::vector<int> iters = facts_.spatial;
      if (reversed) std::reverse(iters.begin(), iters.end());
      for (int i : iters) order.emplace_back(level, i);
    };
    auto reduce = [&](size_t level) {
      for (int i : facts_.reduce) order.emplace_back(level, i);
    };
    spatial(kS0, reverse_outer_);
    spatial(kS1, reverse_outer_);
    reduce(kR0);
    spatial(kS2, reverse_inner_);
    reduce(kR1);
    reduce(kR2);
    for (int i : facts_.spatial) {
      if (i != vector_iter_) order.emplace_back(kS3, i);
    }
    order.emplace_back(kS3, vector_iter_);
    return order;
  }

  void pack_weights() {
    std::vector<std::string> word = {"spatial", "reversed"};
    if (facts_.spatial.size() > 1) {
      reverse_outer_ = c_.t.choose(key("outer_order"), word) == "reversed";
      reverse_inner_ = c_.t.choose(key("inner_order"), word) == "reversed";
    }
    for (const std::string& name : inputs_of(node())) {
      if (!is_weight(name)) continue;
      std::vector<Expr> indices = indices_of(node(), name);
      bool plain = indices.size() > 1;
      for (const Expr& e : indices) plain &= plain_iterator(node(), e) >= 0;
      if (!plain) continue;
      std::vector<std::string> ways = {"tiles", "none"};
      if (c_.t.choose(key(name), ways) == "tiles") c_.s.prepack(name, packing(indices));
    }
  }

  // Digits of the weight's indices in the order of the loops.
  IndexMap packing(const std::vector<Expr>& indices) {
    std::map<int, int> dimension;
    for (size_t d = 0; d < indices.size(); ++d) {
      dimension[plain_iterator(node(), indices[d])] = static_cast<int>(d);
    }
    return IndexMap::make(static_cast<int>(indices.size()), [&](const std::vector<Var>& x) {
      std::vector<Expr> digits;
      for (auto [level, i] : nest()) {
        auto it = dimension.find(i);
        if (it == dimension.end()) continue;
        if (Expr e = digit(x[it->second], tiles_[i].factors, level); e.defined()) {
          digits.push_back(e);
        }
      }
      return digits;
    });
  }

  static Expr digit(const Expr& x, const std::vector<int64_t>& f, size_t level) {
    if (f[level] == 1) return {};
    int64_t inner =
        std::accumulate(f.begin() + level + 1, f.end(), int64_t{1}, std::multiplies<>());
    bool outermost = std::all_of(f.begin(), f.begin() + level, [](int64_t v) { return v == 1; });
    Expr e = inner == 1 ? x : floordiv(x, inner);
    return outermost ? e : floormod(e, f[level]);
  }

  // Loops ----------------------------------------------------------------------------------------
  void split_and_reorder() {
    std::vector<Loop> loops = c_.s.loops(block_);
    TW_ASSERT(loops.size() == node().iters.size(), "a contraction is tiled before it is moved");
    for (size_t i = 0; i < loops.size(); ++i) {
      Tiles& tiles = tiles_[static_cast<int>(i)];
      tiles.loops = c_.s.split(loops[i], tiles.factors);
    }
    std::vector<Loop> order;
    for (auto [level, i] : nest()) order.push_back(tiles_[i].loops[level]);
    c_.s.reorder(order);

    size_t spatial = facts_.spatial.size(), reduce = facts_.reduce.size();
    bool cut = std::any_of(facts_.reduce.begin(), facts_.reduce.end(),
                           [&](int i) { return tiles_[i].factors[kR0] > 1; });
    size_t first_r0 = 2 * spatial, first_s2 = first_r0 + reduce;
    size_t first_r1 = first_s2 + spatial;
    // Where the whole result of a tile is known: under S1, or under S2 when R0 is one iteration.
    done_loop_ = order[cut ? first_r0 - 1 : first_r1 - 1];
    first_reduce_loop_ = order[cut ? first_r0 : first_r1];
    s1_loop_ = order[first_r0 - 1];
    outer_.assign(order.begin(), order.begin() + first_r0);
    parallel_levels_ = c_.t.choose(key("parallel"), std::vector<int64_t>{1, 2});
  }

  // Producers and consumers ----------------------------------------------------------------------
  void place_producers() {
    for (const Block& p : c_.s.producers(block_)) {
      if (analyze(c_.s, p).role != BlockRole::Injective) continue;
      bool ours = c_.s.consumers(p).size() == 1;
      std::vector<std::string> ways = {"root"};
      if (ours) ways = {"root", "tile", "inline"};
      std::string way = c_.t.choose(key(p.name), ways);
      if (way == "root") {
        schedule_injective(c_, p);
      } else if (way == "inline") {
        c_.s.compute_inline(p);
      } else {
        c_.s.compute_at(p, s1_loop_);
        vectorize_innermost(c_, p, 1);
      }
    }
  }

  void fuse_consumer() {
    std::vector<Block> consumers = c_.s.consumers(block_);
    if (consumers.size() != 1 || is_output(c_.s, store_of(node()).buffer->name)) return;
    if (!same_shape(consumers[0])) return;
    fused_ = consumers[0];
    c_.s.reverse_compute_at(*fused_, done_loop_);
  }

  // An injective consumer that reads our result at its own iterators, one to one.
  bool same_shape(const Block& consumer) {
    const BlockNode& n = c_.s.node(consumer);
    if (analyze(c_.s, consumer).role != BlockRole::Injective) return false;
    std::vector<Expr> indices = indices_of(n, store_of(node()).buffer->name);
    if (indices.size() != n.iters.size()) return false;
    for (size_t d = 0; d < indices.size(); ++d) {
      if (plain_iterator(n, indices[d]) != static_cast<int>(d)) return false;
    }
    return true;
  }

  void finish_inner_loops() {
    Block init = c_.s.decompose_reduction(block_, first_reduce_loop_);
    for (int i : facts_.reduce) {
      if (tiles_[i].factors[kR2] > 1) c_.s.unroll(tiles_[i].loops[kR2]);
    }
    for (int i : facts_.spatial) {
      if (i != vector_iter_ && tiles_[i].factors[kS3] > 1) c_.s.unroll(tiles_[i].loops[kS3]);
    }
    if (tiles_[vector_iter_].factors[kS3] > 1) c_.s.vectorize(tiles_[vector_iter_].loops[kS3]);
    finish_copy(init);
    if (fused_) finish_copy(*fused_);
    size_t count = parallel_levels_ == 2 ? outer_.size() : outer_.size() / 2;
    parallel_over(c_, {outer_.begin(), outer_.begin() + static_cast<long>(count)});
  }

  // The loops of the init block and of the fused consumer, below the tile: vectors along the
  // vector iterator, unrolled along the register tile's rows.
  void finish_copy(const Block& b) {
    std::vector<Loop> loops = c_.s.loops(b);
    vectorize_innermost(c_, b, tiles_[vector_iter_].factors[kS3] / std::max<int64_t>(1, lanes()));
    int64_t copies = 1;
    for (size_t n = loops.size() - 1; n-- > 0;) {
      const ForNode& loop = c_.s.node(loops[n]);
      auto extent = as_int(loop.extent);
      bool ours = loop.for_kind == ForKind::Serial && extent && below_tile(loops[n]);
      if (!ours || copies * *extent > accumulator_budget()) break;
      copies *= *extent;
      if (*extent > 1) c_.s.unroll(loops[n]);
    }
  }

  // True when the loop holds one block only, so that it is not one of the tile's own loops.
  bool below_tile(const Loop& loop) {
    int blocks = 0;
    for_each_stmt(c_.s.node(loop).body,
                  [&](const Stmt& s) { blocks += s.as<BlockNode>() != nullptr; });
    return blocks == 1;
  }

  RuleContext& c_;
  Block block_;
  BlockFacts facts_;
  std::vector<std::string> names_;
  std::map<int, Tiles> tiles_;
  int vector_iter_ = 0;
  int64_t registers_ = 1;  // accumulators of the register tile
  bool reverse_outer_ = false, reverse_inner_ = false;
  int64_t parallel_levels_ = 1;
  std::vector<Loop> outer_;
  Loop done_loop_, first_reduce_loop_, s1_loop_;
  std::optional<Block> fused_;
};

}  // namespace

void tile_contraction(RuleContext& c, const Block& block) { ContractionTiler(c, block).run(); }

}  // namespace tilewright
