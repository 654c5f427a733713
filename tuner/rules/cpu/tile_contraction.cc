// Multi-level tiling of contractions.
#include <algorithm>
#include <map>

#include "ir/arith/simplify.h"
#include "ir/predicates.h"
#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/cpu/blocked_layout.h"
#include "tuner/rules/cpu/group_scale.h"
#include "tuner/rules/cpu/matrix_tiles.h"
#include "tuner/rules/cpu/matrix_view.h"
#include "tuner/rules/cpu/tensor.h"
#include "tuner/rules/cpu/tile_plan.h"
#include "tuner/rules/cpu/widened_copy.h"
#include "tuner/rules/rules.h"

namespace tilewright {
namespace {

constexpr int64_t kWorthACopy = 16;   // reads per element
constexpr int64_t kMostWidened = 16;  // vectors of widened elements made in one piece

bool is_quotient(const Expr& e) {
  auto* n = e.as<BinaryNode>();
  return n && n->op == BinaryOp::FloorDiv;
}

class ContractionTiler {
 public:
  ContractionTiler(RuleContext& c, Block block, std::optional<TensorTile> tensor,
                   std::optional<GroupScale> groups)
      : c_(c), block_(std::move(block)), groups_(groups), plan_(c, block_, tensor, groups) {}

  void run() {
    plan_.choose();
    turn_result();
    for (const Block& producer : plan_.apart()) c_.s.compute_inline(producer);
    choose_dequantization();
    pack_operands();
    split_and_reorder();
    place_producers();
    fuse_consumer();
    make_parallel();
    finish_inner_loops();
  }

 private:
  const Loop& loop(int iter, Level level) const { return loops_.at(iter)[place_of(level)]; }
  const BlockNode& node() { return c_.s.node(block_); }
  std::string key(const std::string& what) const { return plan_.key(what); }
  const BlockFacts& facts() const { return plan_.facts(); }
  bool unit(int iter, Level level) const { return plan_.factor(iter, level) == 1; }

  // If vectors do not run along the result's last dimension, accumulators get a layout in which
  // they do, and their reader transposes them.
  void turn_result() {
    int lanes = plan_.vector_iter();
    auto along = [&](const Expr& e) { return plain_iterator(node(), e) == lanes; };
    const std::vector<Expr>& before = store_of(node()).indices;
    bool across = std::any_of(before.begin(), before.end(), along) && !along(before.back());
    if (plan_.tensor() || !across) return;
    if (is_output(c_.s, c_.s.output(block_)->name)) {
      c_.s.cache_write(block_, c_.s.output(block_)->name, Scope::Global);
    }
    const StoreNode& store = store_of(node());
    auto at = std::find_if(store.indices.begin(), store.indices.end(), along);
    const size_t rank = store.indices.size();
    auto turned = static_cast<size_t>(at - store.indices.begin());
    c_.s.transform_layout(store.buffer->name, moved_index(rank, turned, rank - 1));
  }

  // Packs operands in the order in which the loops read them: weights once, others in a copy of
  // each run.
  void pack_operands() {
    for (const std::string& name : inputs_of(node())) {
      std::vector<Expr> indices = indices_of(node(), name);
      if (indices.size() < 2 || !find_param(c_.s, name)) continue;
      auto is_plain = [&](const Expr& e) { return plain_iterator(node(), e) >= 0; };
      const bool plain = std::ranges::all_of(indices, is_plain);
      auto is_placed = [&](const Expr& e) { return is_plain(e) || reads_memory(e); };
      // One of several stacked weights, selected by a lookup.
      const bool stacked = !c_.input.workload.weight && std::ranges::all_of(indices, is_placed);
      if (!is_weight(c_.s, name) && reads_one_row(c_.s, block_, name)) {
        widen_row(name);
      } else if (is_weight(c_.s, name) && (plain || stacked)) {
        pack_weight(name, indices);
      } else if (is_weight(c_.s, name) && belongs_to_groups(name, indices)) {
        // Elsewhere each group's scales would be a few lines of another page.
        c_.s.prepack(name, plan_.packing(indices));
      } else if (!plain) {
        pack_looked_up(name, indices);
      } else if (plan_.reuse(indices) >= kWorthACopy) {
        std::vector<std::string> ways = {"none", "copy"};
        if (across(indices)) std::swap(ways[0], ways[1]);
        const std::optional<ElemType> wide = widened(name);
        if (wide) ways.insert(ways.begin(), "widened");
        const std::string way = c_.t.choose(key(name), ways);
        if (way == "copy") copy_packed(name, plan_.packing(indices));
        if (way == "widened") copy_packed(name, plan_.packing(indices), wide);
      }
    }
  }

  // Copies a row that is read in order, each element in every vector of columns, in the wider type.
  void widen_row(const std::string& name) {
    const std::optional<ElemType> wide = widened(name);
    if (!wide || plan_.reuse(indices_of(node(), name)) < kWorthACopy) return;
    const std::vector<std::string> ways = {"widened", "none"};
    if (c_.t.choose(key(name), ways) == "none") return;
    const Block copy = c_.s.widen_operand(name, *wide, 0);
    schedule_injective(c_, copy);
    copies_.push_back(copy);
    rows_.push_back(copy);
  }

  // Whether these are whole bytes for groups of the reduction: scales, zero points or offsets.
  bool belongs_to_groups(const std::string& name, const std::vector<Expr>& indices) {
    auto is_group = [&](const Expr& e) { return plan_.grouped_iterator(e) >= 0; };
    auto fits = [&](const Expr& e) { return is_group(e) || plain_iterator(node(), e) >= 0; };
    return std::ranges::any_of(indices, is_group) && std::ranges::all_of(indices, fits) &&
           bits_of(find_param(c_.s, name)->buffer->elem) >= 8;
  }

  // An intrinsic takes operands in their own types, and so do integer sums over groups.
  std::optional<ElemType> widened(const std::string& name) {
    const bool own = plan_.tensor() || (groups_ && is_integer(groups_->sums));
    return own ? std::nullopt : widened_type(c_.s, block_, name);
  }

  // Packs operands beside a compressed weight. If columns share rows, these are the row numbers,
  // along the reduction, and the looked-up operand, with a tile's rows as neighbours.
  void pack_looked_up(const std::string& name, const std::vector<Expr>& indices) {
    const std::optional<WeightFormat>& format = c_.input.workload.weight;
    if (!format || !format->sparse() || format->vector % plan_.lanes() != 0) return;
    if (std::any_of(indices.begin(), indices.end(), reads_memory)) {
      std::optional<IndexMap> map = plan_.rows_together(indices);
      const std::vector<std::string> ways = {"copy", "none"};
      if (map && c_.t.choose(key(name), ways) == "copy") copy_packed(name, *map);
    } else if (is_weight(c_.s, name) && is_quotient(indices.back())) {
      const std::vector<std::string> ways = {"columns", "none"};
      if (c_.t.choose(key(name), ways) == "columns") {
        c_.s.prepack(name, moved_index(indices.size(), indices.size() - 1, 0));
      }
    }
  }

  void pack_weight(const std::string& name, const std::vector<Expr>& indices) {
    const bool codes =
        groups_ && groups_->masked && bits_of(find_param(c_.s, name)->buffer->elem) < 8;
    if (codes) return c_.s.prepack(name, plan_.packing(indices, true));
    std::vector<std::string> ways = {"tiles"};
    if (!plan_.lanes_in_all() || !across(indices)) ways.emplace_back("none");
    bool words = !weight_value_ && plan_.fills_words(find_param(c_.s, name)->buffer->elem);
    if (words) ways.insert(ways.begin(), "words");
    const bool worth_it = !c_.input.workload.weight && plan_.reuse(indices) >= kWorthACopy;
    const std::optional<ElemType> wide = worth_it ? widened(name) : std::nullopt;
    if (wide) ways.insert(ways.begin(), "widened");
    std::string way = c_.t.choose(key(name), ways);
    if (way == "none") return;
    const std::string read = way == "widened" ? widen_at_load(c_.s, name, *wide) : name;
    c_.s.prepack(read, plan_.packing(indices, way == "words"));
  }

  // Asks where the stored weight is dequantized: in registers per use, per chunk of the reduction
  // in a tile's columns, or before everything else.
  void choose_dequantization() {
    if (groups_ && groups_->widened) return start_widening(*groups_->widened);
    std::optional<Block> value = weight_value_of(c_.s, block_, c_.input.workload);
    if (!value) return;
    std::vector<Expr> indices = indices_of(node(), c_.s.output(*value)->name);
    if (groups_) return c_.s.compute_inline(*value);
    std::vector<std::string> ways = {"inline", "root"};
    if (!across(indices)) {
      ways.insert(plan_.worth_a_tile(indices) ? ways.begin() : ways.begin() + 1, "tile");
    }
    dequantize_ = c_.t.choose(key(value->name), ways);
    if (dequantize_ == "inline") return c_.s.compute_inline(*value);
    weight_value_ = value;
    // The tile is read in loop order, and so is the stored weight behind it.
    if (dequantize_ == "tile") pack_weight(c_.input.workload.weight->weight, indices);
  }

  void start_widening(const Block& widened) {
    std::vector<Expr> indices = indices_of(node(), widened.name);
    weight_value_ = widened;
    // Packs codes so that those of neighbouring lanes have the same position in neighbouring words.
    std::string stored = inputs_of(c_.s.node(widened))[0];
    c_.s.prepack(stored, plan_.packing(indices, true));
    if (!groups_->each_lane) return;
    for (const std::string& name : inputs_of(c_.s.node(*groups_->gathered))) {
      if (is_weight(c_.s, name)) c_.s.prepack(name, plan_.packing(indices, true));
    }
  }

  void place_widened() {
    const int tiles = plan_.tensor()->tiles;
    const Widening place = *plan_.widening();
    Loop at = place == Widening::Registers ? loop(tiles, Level::S3)
              : place == Widening::Tile    ? chunk_loop_
                                           : outer_[s0_loops_ - 1];
    // By step, a vector is made right before its use, in few registers; by word, all at once.
    bool by_word = true;
    if (place == Widening::Registers && !unit(groups_->k, Level::R2)) {
      const std::vector<std::string> ways = {"step", "word"};
      by_word = c_.t.choose(key(weight_value_->name + ".at"), ways) == "word";
    }
    if (!by_word) at = loop(groups_->k, Level::R2);
    place_vectors(*weight_value_, at, by_word);
    if (groups_->each_lane) place_vectors(*groups_->gathered, at, by_word);
  }

  // Places a block that makes elements of stored codes under `at`. It makes vectors of the elements
  // that the intrinsic takes for its lanes. Innermost around them are the iterations whose codes
  // share a word, if any.
  void place_vectors(const Block& made, const Loop& at, bool by_word) {
    c_.s.compute_at(made, at);
    std::vector<Loop> loops = c_.s.loops(made);
    const size_t last = loops.size() - 1;
    Loop lanes = c_.s.fuse({loops[last - 1], loops[last]});
    c_.s.vectorize(lanes);
    loops.erase(loops.begin() + static_cast<long>(last) - 1, loops.end());
    if (by_word) {
      const std::vector<Expr> indices = indices_of(node(), made.name);
      auto along = std::find_if(indices.begin(), indices.end(), [&](const Expr& e) {
        return plain_iterator(node(), e) == groups_->k;
      });
      size_t k = last + 1 - indices.size() + static_cast<size_t>(along - indices.begin());
      std::vector<Loop> words = c_.s.split(loops[k], {-1, groups_->word});
      loops[k] = words[0];
      loops.push_back(words[1]);
      std::vector<Loop> order(loops.begin() + static_cast<long>(k), loops.end());
      order.push_back(lanes);
      c_.s.reorder(order);
    }
    vector_loops_.push_back(loops);
  }

  // Vectors of codes that share words are unrolled together.
  void unroll_vectors(const std::vector<Loop>& loops) {
    int64_t copies = 1;
    for (size_t n = loops.size(); n-- > 0;) {
      const ForNode& loop = c_.s.node(loops[n]);
      auto extent = as_int(loop.extent);
      bool ours = loop.for_kind == ForKind::Serial && extent && below_tile(loops[n]);
      if (!ours || copies * *extent > kMostWidened) break;
      copies *= *extent;
      if (*extent > 1) c_.s.unroll(loops[n]);
    }
  }

  // Places the operand of a compressed weight's rows, vectorized along them. It is made per chunk
  // of the reduction, or before everything else if its sums are needed.
  void place_gathered() {
    const Block& gathered = *groups_->gathered;
    std::vector<std::string> ways = {"tile", "root"};
    if (groups_->summed) ways = {"root"};
    const bool tile = c_.t.choose(key(gathered.name), ways) == "tile";
    if (tile) c_.s.compute_at(gathered, chunk_loop_);
    std::vector<Loop> loops = c_.s.loops(gathered);
    Loop along = c_.s.fuse({loops[loops.size() - 2], loops.back()});
    loops.resize(loops.size() - 2);
    // A vector's elements are selected from two vectors.
    const WeightFormat& format = *c_.input.workload.weight;
    const int bits = bits_of(c_.s.output(gathered)->elem);
    int64_t lanes = c_.input.target.lanes(bits);
    while (lanes * format.of > 2 * c_.input.target.lanes(bits) * format.keep) lanes /= 2;
    c_.s.vectorize(c_.s.split(along, {-1, lanes})[1]);
    if (!tile) parallel_over(c_, loops);
  }

  void place_weight_value() {
    if (!weight_value_) return;
    if (groups_) return place_widened();
    if (dequantize_ == "root") return schedule_injective(c_, *weight_value_);
    c_.s.compute_at(*weight_value_, chunk_loop_);
    vectorize_innermost(c_, *weight_value_, 1);
  }

  void copy_packed(const std::string& name, const IndexMap& map,
                   std::optional<ElemType> type = std::nullopt) {
    Block copy =
        type ? c_.s.widen_operand(name, *type, 0) : c_.s.cache_read(block_, name, Scope::Global);
    schedule_copy(c_, copy, map);  // while iterations visibly write different elements
    c_.s.transform_layout(c_.s.output(copy)->name, map);
    copies_.push_back(copy);
  }

  // The dimension along which a vector of the output needs elements that are not neighbours here.
  std::optional<size_t> across(const std::vector<Expr>& indices) {
    return dimension_across(node(), indices, plan_.vector_iter(), plan_.lanes());
  }

  // Loops ----------------------------------------------------------------------------------------
  void split_and_reorder() {
    std::vector<Loop> loops = c_.s.loops(block_);
    TW_ASSERT(loops.size() == node().iters.size(), "a contraction is tiled before it is moved");
    for (size_t i = 0; i < loops.size(); ++i) {
      int iter = static_cast<int>(i);
      loops_[iter] = c_.s.split(loops[i], plan_.split_factors(iter));
    }
    std::vector<Loop> order;
    std::vector<Level> levels;
    for (auto [level, i] : plan_.nest()) {
      levels.push_back(level);
      order.push_back(loop(i, level));
    }
    c_.s.reorder(order);

    auto first = [&](Level level) {
      auto at = std::find_if(levels.begin(), levels.end(), [&](Level l) { return l >= level; });
      return at - levels.begin();
    };
    bool cut = std::any_of(facts().reduce.begin(), facts().reduce.end(),
                           [&](int i) { return !unit(i, Level::R0); });
    // The loop under which a tile's whole result is known: S1, or S2 if R0 has one iteration.
    auto reduction = static_cast<size_t>(first(cut ? Level::R0 : Level::RP));
    chunk_reduce_loop_ = order[static_cast<size_t>(first(Level::RP))];
    first_reduce_loop_ = order[reduction];
    done_loop_ = order[reduction - 1];
    outer_.assign(order.begin(), order.begin() + first(Level::R0));
    s1_loop_ = outer_.back();
    chunk_loop_ = order[static_cast<size_t>(first(Level::S2)) - 1];
    s0_loops_ = static_cast<size_t>(first(Level::S1));
    // A panel stands under S0, so that this level stays separate.
    const bool apart = plan_.widening() == Widening::Panel;
    if (!apart) parallel_levels_ = c_.t.choose(key("parallel"), std::vector<int64_t>{1, 2});
  }

  // Producers and consumers ----------------------------------------------------------------------
  void place_producers() {
    place_weight_value();
    if (groups_ && groups_->gathered && !groups_->each_lane) place_gathered();
    for (const Block& p : c_.s.producers(block_)) {
      if (std::count(rows_.begin(), rows_.end(), p)) continue;
      if (analyze(c_.s, p).role != BlockRole::Injective || stands_in_parallel(c_.s, p)) {
        block_layout(p);
        continue;
      }
      if (std::count(copies_.begin(), copies_.end(), p) || p == weight_value_) continue;
      if (groups_ && p == groups_->gathered) continue;
      if (groups_ && p == groups_->padding) {
        schedule_groups(c_, p);
        continue;
      }
      std::vector<std::string> ways = {"root"};
      const bool ours = c_.s.consumers(p).size() == 1;
      // Integer sums that correct a weight's offset are computed ahead.
      if (ours && !(groups_ && groups_->sums == ElemType::i32)) ways.push_back("tile");
      const auto turned = across(indices_of(node(), c_.s.output(p)->name));
      // A lane that is no neighbour costs a load of its own, conditions of lanes a branch each, and an
      // intrinsic reads memory. Padding is best read in place: lowering takes its edges apart.
      const BlockNode& made = c_.s.node(p);
      if (ours && !plan_.tensor() && !turned && !guards_along(node(), made, plan_.vector_iter())) {
        const bool first = pads_with_zeros(made) && !groups_;
        ways.insert(first ? ways.begin() : ways.end(), "inline");
      }
      const auto way = c_.t.choose(key(p.name), ways);
      const std::vector<Block> padded = padded_by(c_.s, p);
      if (way == "inline") {
        c_.s.compute_inline(p);
        for (const Block& q : padded) block_layout(q);
        continue;
      }
      if (ours && !plan_.tensor() && turned) put_dimension_last(c_, p, *turned);
      if (way == "root") {
        schedule_injective(c_, p);
        if (!padded.empty() && !turned) block_layout(p);
      } else {
        c_.s.compute_at(p, s1_loop_);
        vectorize_innermost(c_, p, 1);
        if (plan_.tensor()) unroll_positions(c_.s, p, plan_.tensor()->neighbours);
      }
    }
  }

  // Asks for the blocked layout of a producer that stands between two contractions.
  void block_layout(const Block& producer) {
    if (plan_.tensor()) return;
    const std::string name = c_.s.output(producer)->name;
    choose_blocked_layout(c_, producer, key(name + ".block"), plan_.lanes());
  }

  void fuse_consumer() {
    std::vector<Block> consumers = c_.s.consumers(block_);
    if (consumers.size() != 1 || is_output(c_.s, c_.s.output(block_)->name)) return;
    // Elements of other phases lie between those of one tile, so there is no box at which to fuse.
    if (!plan_.apart().empty()) return;
    const bool tiles = reads_tiles(c_.s, block_, consumers[0], plan_.tensor());
    if (!tiles && !reads_one_to_one(consumers[0])) return;
    fused_ = consumers[0];
    c_.s.reverse_compute_at(*fused_, done_loop_);
    if (tiles) split_into_tiles(c_.s, *fused_, *plan_.tensor()->row);
  }

  bool reads_one_to_one(const Block& consumer) {
    return can_take_in(c_.s, block_, consumer) &&
           covers_iterators(c_.s.node(consumer), c_.s.output(block_)->name);
  }

  // Parallelized before the initialization gets its own block: with a single writer, the analyzer
  // sees that iterations write different elements.
  void make_parallel() {
    size_t count = parallel_levels_ == 2 ? outer_.size() : s0_loops_;
    parallel_over(c_, {outer_.begin(), outer_.begin() + static_cast<long>(count)});
  }

  void finish_inner_loops() {
    int along = plan_.vector_iter();
    Block init = c_.s.decompose_reduction(block_, first_reduce_loop_);
    const std::optional<TensorTile>& tensor = plan_.tensor();
    std::vector<Block> made;
    const bool factored = groups_ && groups_->factored;
    if (factored) made = c_.s.factor_scale(block_, chunk_reduce_loop_, groups_->sums);
    for (int i : facts().reduce) {
      bool kept = tensor && tensor->has_terms(i);
      if (!unit(i, Level::R2) && !kept) c_.s.unroll(loop(i, Level::R2));
    }
    const int outermost = tensor && tensor->is_tile() ? tensor->rows : along;
    for (int i : facts().spatial) {
      if (i != along && i != outermost && !unit(i, Level::S3)) c_.s.unroll(loop(i, Level::S3));
    }
    if (tensor) {
      c_.s.tensorize(loop(outermost, Level::S3), std::string(tensor->row->name),
                     std::string(tensor->row->computes));
    } else if (!unit(along, Level::S3)) {
      c_.s.vectorize(loop(along, Level::S3));
    }
    finish_copy(init);
    if (factored) {
      finish_copy(made[1]);
      finish_copy(block_);
    }
    for (const std::vector<Loop>& loops : vector_loops_) unroll_vectors(loops);
    if (fused_) finish_copy(*fused_);
  }

  // Vectorizes the init block and the fused consumer below the tile along the vector iterator. Rows are
  // unrolled, except around an expensive function: compilers take seconds for its hundred copies.
  void finish_copy(const Block& b) {
    // Lanes that are not neighbours in memory are stored one by one: unrolled, they take minutes.
    if (plan_.tensor() && !stores_neighbours(c_.s, b)) return;
    std::vector<Loop> loops = c_.s.loops(b);
    if (plan_.tensor() && plan_.tensor()->is_tile() && b != fused_) {
      // A tile starts as one vector, as its products are.
      c_.s.vectorize(c_.s.fuse({loops[loops.size() - 2], loops.back()}));
      loops.pop_back();
    } else {
      vectorize_innermost(c_, b, plan_.factor(plan_.vector_iter(), Level::S3) / plan_.lanes());
    }
    if (is_expensive(c_.s.node(b))) return;
    int64_t copies = 1;
    for (size_t n = loops.size() - 1; n-- > 0;) {
      const ForNode& loop = c_.s.node(loops[n]);
      auto extent = as_int(loop.extent);
      bool ours = loop.for_kind == ForKind::Serial && extent && below_tile(loops[n]);
      if (!ours || copies * *extent > plan_.accumulator_budget()) break;
      copies *= *extent;
      if (*extent > 1) c_.s.unroll(loops[n]);
    }
  }

  // Whether the loop holds one block only, and so is not one of the tile's own loops.
  bool below_tile(const Loop& loop) {
    int blocks = 0;
    for_each_stmt(c_.s.node(loop).body,
                  [&](const Stmt& s) { blocks += s.as<BlockNode>() != nullptr; });
    return blocks == 1;
  }

  RuleContext& c_;
  Block block_;
  std::optional<GroupScale> groups_;
  TilePlan plan_;
  std::map<int, std::vector<Loop>> loops_;  // by iterator, in the order of its factors
  int64_t parallel_levels_ = 1;
  std::vector<Loop> outer_;           // SP, S0 and S1
  size_t s0_loops_ = 0;               // of these: SP and S0
  std::vector<Block> copies_, rows_;  // packed copies of operands; of these: copies of single rows
  Loop done_loop_, first_reduce_loop_, s1_loop_;
  Loop chunk_reduce_loop_;                       // outermost loop of a chunk of the reduction
  std::vector<std::vector<Loop>> vector_loops_;  // around vectors of unpacked elements
  Loop chunk_loop_;                    // one chunk of the reduction for the tiles under S1
  std::optional<Block> weight_value_;  // if it is not dequantized in place
  std::string dequantize_;
  std::optional<Block> fused_;
};

}  // namespace

void tile_contraction(RuleContext& c, const Block& contraction) {
  std::optional<KeptWeight> kept = compress_weight(c, contraction);
  const Block block = split_contraction(c, contraction);
  std::optional<GroupScale> groups = prepare_group_scale(c, block, kept);
  std::optional<TensorTile> tensor = groups ? groups->tensor : prepare_tiles(c, block);
  if (!groups && !tensor) tensor = prepare_tensor(c, block);
  ContractionTiler(c, block, tensor, groups).run();
}

}  // namespace tilewright
