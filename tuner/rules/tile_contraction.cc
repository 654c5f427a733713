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

// The loops of a contraction, outermost first. Spatial iterators are split into S0 S1 S2 S3 and
// reductions into R0 R1 R2 (R2 is unrolled); those that meet in a periodic condition have their
// phase besides: SP in front of all loops, RP in front of R1, so that the condition is decided
// outside the loops that do the work.
enum class Level { SP, S0, S1, R0, S2, RP, R1, R2, S3 };

// The factors of one iterator in the order of their weight: S0 S1 S2 S3 SP or R0 R1 R2 RP.
struct Tiles {
  std::vector<int64_t> factors;
  std::vector<Loop> loops;
};

// Which factor of its iterator a level is.
size_t place_of(Level level) {
  switch (level) {
    case Level::S0:
    case Level::R0: return 0;
    case Level::S1:
    case Level::R1: return 1;
    case Level::S2:
    case Level::R2: return 2;
    case Level::S3:
    case Level::RP: return 3;
    case Level::SP: return 4;
  }
  return 0;
}

constexpr int64_t kWorthACopy = 16;     // times that an element is read
constexpr int64_t kMostUnrolled = 128;  // vector operations in one copy of the innermost code

constexpr size_t kS0 = 0, kS1 = 1, kS2 = 2, kS3 = 3;
constexpr size_t kR0 = 0, kR2 = 2;

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
    pack_operands();
    split_and_reorder();
    place_producers();
    fuse_consumer();
    make_parallel();
    finish_inner_loops();
  }

 private:
  const BlockNode& node() { return c_.s.node(block_); }
  std::string key(const std::string& what) { return block_.name + "." + what; }
  std::string key(int iter, const std::string& what) { return key(names_[iter] + "." + what); }

  // Decisions ------------------------------------------------------------------------------------
  void choose_tiles() {
    vector_iter_ = pick_vector_iter();
    find_phases();
    int64_t budget = accumulator_budget();
    choose_registers(budget);
    for (int i : facts_.spatial) choose_outer_levels(i);
    choose_reduction();
    for (auto [i, period] : phases_) tiles_[i].factors.push_back(period);
  }

  // Iterators that meet in the index of a producer that is zero but for every so many elements (a
  // transposed convolution's input between its stuffed zeros).
  void find_phases() {
    for (const Block& p : c_.s.producers(block_)) {
      if (c_.s.consumers(p).size() != 1) continue;
      std::map<int, int64_t> found;
      std::vector<int64_t> periods = zero_periods(c_.s.node(p));
      std::vector<Expr> indices = indices_of(node(), store_of(c_.s.node(p)).buffer->name);
      for (size_t d = 0; d < periods.size() && d < indices.size(); ++d) {
        if (periods[d] < 2) continue;
        for (size_t i = 0; i < node().iters.size(); ++i) {
          int n = static_cast<int>(i);
          if (n != vector_iter_ && uses_var(indices[d], node().iters[i].var) &&
              facts_.extents[n] >= periods[d]) {
            found[n] = periods[d];
          }
        }
      }
      if (found.empty()) continue;
      if (c_.t.choose(key("phases"), std::vector<std::string>{"apart", "together"}) == "apart") {
        phases_.insert(found.begin(), found.end());
        c_.s.compute_inline(p);
      }
    }
  }

  int64_t phase(int iter) const {
    auto it = phases_.find(iter);
    return it == phases_.end() ? 1 : it->second;
  }
  // Of one phase.
  int64_t extent(int iter) const { return ceil_div(facts_.extents[iter], phase(iter)); }

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
    int64_t along = extent(vector_iter_);
    int64_t width = lanes();
    int64_t most = std::max<int64_t>(1, ceil_div(along, width));
    bool only_axis = other_work() == 1;  // nothing else to block: wide tiles hide latency
    int64_t vectors =
        c_.t.choose(key(vector_iter_, "vectors"),
                    up_to({1, 2, 3, 4, 6, 8}, std::min<int64_t>(most, 8), only_axis ? 8 : 4));
    tiles_[vector_iter_].factors = {1, 1, 1, std::min(width * vectors, round_up_lanes(along))};
    registers_ = vectors;
    int64_t left = std::max<int64_t>(1, budget / vectors);
    for (size_t n = facts_.spatial.size(); n-- > 0;) {
      int i = facts_.spatial[n];
      if (i == vector_iter_) continue;
      int64_t rows = 1;
      if (extent(i) > 1 && left > 1) {
        rows = c_.t.choose(key(i, "rows"), up_to({1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 28},
                                                 std::min(left, extent(i)), left));
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
    int64_t left = ceil_div(extent(i), f[kS3]);
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
      if (extent(i) >= extent(longest)) longest = i;
      tiles_[i].factors = {1, extent(i), 1};
    }
    int64_t length = extent(longest);
    // A remainder of the reduction costs another copy of the innermost code: chunks that divide.
    std::vector<int64_t> chunks = {length};
    for (int64_t pieces = 2; length / pieces >= 64 && chunks.size() < 6; ++pieces) {
      if (length % pieces == 0) chunks.push_back(length / pieces);
    }
    int64_t chunk = c_.t.choose(key(longest, "chunk"), chunks);
    std::vector<int64_t> unrolls = {1};
    for (int64_t u : {2, 4}) {
      if (chunk % u == 0 && registers_ * u <= kMostUnrolled) unrolls.push_back(u);
    }
    // Neighbours in a short window share what they load when all of it stands in one piece.
    if (chunk <= 7 && chunk != 4 && chunk > 2 && registers_ * chunk <= kMostUnrolled) {
      unrolls.push_back(chunk);
    }
    int64_t unroll = c_.t.choose(key(longest, "unroll"), unrolls);
    tiles_[longest].factors = {ceil_div(length, chunk), ceil_div(chunk, unroll), unroll};
    for (int i : facts_.reduce) {
      if (i == longest || extent(i) < 2 || extent(i) > 7) continue;
      int64_t copies = registers_ * unroll * extent(i);
      if (copies > kMostUnrolled) continue;
      if (c_.t.choose(key(i, "whole"), std::vector<std::string>{"loop", "unroll"}) == "unroll") {
        tiles_[i].factors = {1, 1, extent(i)};
        unroll *= extent(i);
      }
    }
  }

  // Operands -------------------------------------------------------------------------------------
  const Param* param(const std::string& name) {
    for (const Param& p : c_.s.program().params) {
      if (p.buffer->name == name) return &p;
    }
    return nullptr;
  }
  bool is_param(const std::string& name) { return param(name) != nullptr; }
  bool is_weight(const std::string& name) { return param(name)->role == ParamRole::Weight; }

  // The order in which the loops stand: (level, iterator) pairs, outermost first.
  std::vector<std::pair<Level, int>> nest() {
    std::vector<std::pair<Level, int>> order;
    auto spatial = [&](Level level, bool reversed) {
      std::vector<int> iters = facts_.spatial;
      if (reversed) std::reverse(iters.begin(), iters.end());
      for (int i : iters) order.emplace_back(level, i);
    };
    auto reduce = [&](Level level) {
      for (int i : facts_.reduce) order.emplace_back(level, i);
    };
    auto phases = [&](Level level, const std::vector<int>& iters) {
      for (int i : iters) {
        if (phase(i) > 1) order.emplace_back(level, i);
      }
    };
    phases(Level::SP, facts_.spatial);
    spatial(Level::S0, reverse_outer_);
    spatial(Level::S1, reverse_outer_);
    reduce(Level::R0);
    spatial(Level::S2, reverse_inner_);
    phases(Level::RP, facts_.reduce);
    reduce(Level::R1);
    reduce(Level::R2);
    for (int i : facts_.spatial) {
      if (i != vector_iter_) order.emplace_back(Level::S3, i);
    }
    order.emplace_back(Level::S3, vector_iter_);
    return order;
  }

  // Operands in the order in which the loops read them: weights once and for all, others by a copy
  // that each run makes.
  void pack_operands() {
    std::vector<std::string> word = {"spatial", "reversed"};
    if (facts_.spatial.size() > 1) {
      reverse_outer_ = c_.t.choose(key("outer_order"), word) == "reversed";
      reverse_inner_ = c_.t.choose(key("inner_order"), word) == "reversed";
    }
    for (const std::string& name : inputs_of(node())) {
      std::vector<Expr> indices = indices_of(node(), name);
      bool plain = indices.size() > 1;
      for (const Expr& e : indices) plain &= plain_iterator(node(), e) >= 0;
      if (!plain || !is_param(name)) continue;
      if (is_weight(name)) {
        std::vector<std::string> ways = {"tiles", "none"};
        if (c_.t.choose(key(name), ways) == "tiles") c_.s.prepack(name, packing(indices));
      } else if (reuse(indices) >= kWorthACopy) {
        std::vector<std::string> ways = {"none", "copy"};
        if (reads_across(indices)) std::swap(ways[0], ways[1]);
        if (c_.t.choose(key(name), ways) == "copy") copy_packed(name, packing(indices));
      }
    }
  }

  void copy_packed(const std::string& name, const IndexMap& map) {
    Block copy = c_.s.cache_read(block_, name, Scope::Global);
    schedule_injective(c_, copy);  // while it is plain that its iterations write apart
    c_.s.transform_layout(store_of(c_.s.node(copy)).buffer->name, map);
    copies_.push_back(copy);
  }

  // How often an element at these indices is read.
  int64_t reuse(const std::vector<Expr>& indices) {
    int64_t times = 1;
    for (int i : facts_.spatial) {
      bool used = std::any_of(indices.begin(), indices.end(),
                              [&](const Expr& e) { return plain_iterator(node(), e) == i; });
      if (!used) times *= facts_.extents[i];
    }
    return times;
  }

  // True when a vector of the output needs elements that are not neighbours here.
  bool reads_across(const std::vector<Expr>& indices) {
    for (size_t d = 0; d + 1 < indices.size(); ++d) {
      if (plain_iterator(node(), indices[d]) == vector_iter_) return true;
    }
    return false;
  }

  // Digits of an operand's indices in the order of the loops.
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
        if (Expr e = digit(x[it->second], tiles_[i].factors, place_of(level)); e.defined()) {
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
    std::vector<Level> levels;
    for (auto [level, i] : nest()) {
      levels.push_back(level);
      order.push_back(tiles_[i].loops[place_of(level)]);
    }
    c_.s.reorder(order);

    auto first = [&](Level level) {
      auto at = std::find_if(levels.begin(), levels.end(), [&](Level l) { return l >= level; });
      return at - levels.begin();
    };
    bool cut = std::any_of(facts_.reduce.begin(), facts_.reduce.end(),
                           [&](int i) { return tiles_[i].factors[kR0] > 1; });
    // Where the whole result of a tile is known: under S1, or under S2 when R0 is one iteration.
    auto reduction = static_cast<size_t>(first(cut ? Level::R0 : Level::RP));
    first_reduce_loop_ = order[reduction];
    done_loop_ = order[reduction - 1];
    outer_.assign(order.begin(), order.begin() + first(Level::R0));
    s1_loop_ = outer_.back();
    s0_loops_ = static_cast<size_t>(first(Level::S1));
    parallel_levels_ = c_.t.choose(key("parallel"), std::vector<int64_t>{1, 2});
  }

  // Producers and consumers ----------------------------------------------------------------------
  void place_producers() {
    for (const Block& p : c_.s.producers(block_)) {
      if (analyze(c_.s, p).role != BlockRole::Injective) continue;
      if (std::count(copies_.begin(), copies_.end(), p)) continue;
      bool ours = c_.s.consumers(p).size() == 1;
      std::vector<std::string> ways = {"root"};
      if (ours) ways = {"root", "tile"};
      // In place of a vector load, a condition that differs from lane to lane costs a branch each.
      if (ours && !guards_lanes(p)) ways.push_back("inline");
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

  // Whether the producer's value has a condition that depends on where we take a vector from.
  bool guards_lanes(const Block& producer) {
    const BlockNode& n = c_.s.node(producer);
    auto* select = store_of(n).value.as<SelectNode>();
    if (!select) return false;
    std::vector<Expr> indices = indices_of(node(), store_of(n).buffer->name);
    for (size_t d = 0; d < indices.size(); ++d) {
      if (uses_var(indices[d], node().iters[vector_iter_].var) &&
          uses_var(select->cond, store_of(n).indices[d])) {
        return true;
      }
    }
    return false;
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

  // Before the initial values get a block of their own: of a buffer with one writer it is seen
  // element by element that iterations write different ones.
  void make_parallel() {
    size_t count = parallel_levels_ == 2 ? outer_.size() : s0_loops_;
    parallel_over(c_, {outer_.begin(), outer_.begin() + static_cast<long>(count)});
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
  std::vector<Loop> outer_;  // SP, S0 and S1
  size_t s0_loops_ = 0;      // of them, SP and S0
  std::map<int, int64_t> phases_;
  std::vector<Block> copies_;  // of operands, packed
  Loop done_loop_, first_reduce_loop_, s1_loop_;
  std::optional<Block> fused_;
};

}  // namespace

void tile_contraction(RuleContext& c, const Block& block) { ContractionTiler(c, block).run(); }

}  // namespace tilewright
