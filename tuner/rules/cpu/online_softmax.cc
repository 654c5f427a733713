// Attention: two contractions with a softmax between them, in one loop over blocks of keys.
#include <algorithm>
#include <optional>

#include "base/ceil_div.h"
#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/cpu/widened_copy.h"
#include "tuner/rules/rules.h"
#include "tuner/rules/softmax_chain.h"
#include "tuner/rules/softmax_parts.h"

namespace tilewright {
namespace {

constexpr int64_t kLeastKeys = 16;     // fewest keys per block of keys
constexpr int64_t kSumRegisters = 12;  // of 16; the others hold operands
constexpr int64_t kOperands = 4;       // registers for operands
constexpr int64_t kManyKeys = 128;     // more keys come in blocks of at least 64
constexpr int64_t kDotVectors = 16;    // most vectors of a dot product's terms in one expression

class OnlineAttention {
 public:
  OnlineAttention(RuleContext& c, SoftmaxChain chain) : c_(c), chain_(std::move(chain)) {
    const ElemType sums = c_.s.output(chain_.product)->elem;
    lanes_ = c_.input.target.lanes(bits_of(sums));
    // Heads with a dynamic number of rows cannot be rows of one tile.
    shared_ = chain_.dynamic_rows ? 1 : heads_of_keys(c_.s, chain_);
  }

  bool fits() const {
    const bool blocks = !chain_.dynamic_keys || chain_.keys > kLeastKeys;
    return lanes_ > 1 && blocks;
  }

  void run() {
    choose_heads();
    choose_lanes();
    choose();
    place();
    along_keys_ ? dot_scores() : tile_scores();
    for (const Block& b : {chain_.top, chain_.sum}) tile_row_reduction(b);
    vectorize_rows();
    tile_product();
    vectorize_innermost(c_, chain_.result, 1);
    if (key_parts_) join_parts(*key_parts_);
  }

 private:
  std::string key(const std::string& what) const { return chain_.top.name + "." + what; }

  // Puts the sizes that divide the extent before the others.
  static std::vector<int64_t> dividing_first(std::vector<int64_t> sizes, int64_t extent) {
    std::stable_partition(sizes.begin(), sizes.end(), [&](int64_t v) { return extent % v == 0; });
    return sizes;
  }

  void choose_heads() {
    if (shared_ == 1) return;
    const bool fits_apart = chain_.rows >= lanes_;
    const std::vector<std::string> ways = {"apart", "packed"};
    if (fits_apart && c_.t.choose(key("heads"), ways) == "apart") return;
    pack_heads(c_.s, chain_, shared_);
  }

  // Vectors of scores run along queries: those of one head, or of all heads that share their keys. Some
  // lanes idle where they are fewer. So vectors of a few queries may run along keys instead, and each
  // score is a dot product of two vectors as they lie in memory.
  void choose_lanes() {
    if (chain_.dynamic_rows || chain_.rows > lanes_) return;
    along_keys_ = chain_.rows == 1;
    if (along_keys_) return;
    const bool few = 2 * chain_.rows <= lanes_;
    const std::vector<std::string> ways = {few ? "keys" : "queries", few ? "queries" : "keys"};
    along_keys_ = c_.t.choose(key("lanes"), ways) == "keys";
  }

  void choose() {
    along_keys_ ? choose_few_rows() : choose_tiles();
    vectors_ = c_.t.choose(key("vectors"), std::vector<int64_t>{2, 4, 1});
    parts_ = choose_parts();
  }

  // A tile has all rows.
  void choose_few_rows() {
    row_tile_ = chain_.rows;
    // Short blocks wait for one row after the other: for its maximum, and what is shifted by it.
    const bool many = chain_.keys > kManyKeys;
    key_tile_ = choose_keys(many ? std::vector<int64_t>{128, 64, 256}
                                 : std::vector<int64_t>{64, 32, 128, 16});
    product_ = choose_registers("product", row_tile_, chain_.columns,
                                c_.input.target.vector_registers - kOperands, {8, 4, 6, 3, 2, 1},
                                {row_tile_, 4, 8, 6, 3, 2, 1});
  }

  int64_t choose_keys(const std::vector<int64_t>& sizes) {
    std::vector<int64_t> keys;
    for (int64_t v : sizes) {
      // With dynamic keys, a block has fewer keys than the maximum.
      const bool is_block =
          chain_.dynamic_keys ? v < chain_.keys : v < 2 * chain_.keys || v == kLeastKeys;
      if (is_block) keys.push_back(v);
    }
    return c_.t.choose(key("keys"), dividing_first(keys, chain_.keys));
  }

  void choose_tiles() {
    std::vector<int64_t> rows;
    for (int64_t v : {8, 4, 2, 16, 1, 6, 12}) {
      const int64_t size = v * lanes_;
      if (size < 2 * chain_.rows || v == 1) rows.push_back(size);
    }
    row_tile_ = c_.t.choose(key("rows"), dividing_first(rows, chain_.rows));
    key_tile_ = choose_keys({64, 32, 128, 48, 96, 256, 16});
    const std::vector<int64_t> vectors = {2, 1, 4, 3};
    const std::vector<int64_t> rows_of_tiles = {6, 4, 8, 12, 3, 2, 1};
    scores_ =
        choose_registers("scores", key_tile_, row_tile_, kSumRegisters, vectors, rows_of_tiles);
    product_ = choose_registers("product", row_tile_, chain_.columns, kSumRegisters, vectors,
                                rows_of_tiles);
  }

  // Asks for the number of parts of the keys (split-KV), which threads take side by side. The knob
  // exists if there are too few row tiles for the threads, as for few sequences of one query each.
  // A config without it means one part.
  int64_t choose_parts() {
    constexpr int64_t kMost = 4;  // tiles per thread
    int64_t stacks = 1;
    for (int64_t extent : analyze(c_.s, chain_.top).extents) stacks *= extent;
    stacks /= chain_.rows * chain_.keys;
    const int64_t tiles = stacks * ceil_div(chain_.rows, row_tile_);
    const int64_t threads = std::max(c_.input.threads, 1);
    std::vector<int64_t> options = {1};
    for (int64_t p : {2, 4, 8, 16, 32, 64, 3, 6, 12, 24, 48}) {
      const bool whole = !chain_.dynamic_keys && chain_.keys % p == 0;
      const bool useful = chain_.keys / p >= key_tile_ && tiles * p <= kMost * threads;
      if (whole && useful) options.push_back(p);
    }
    if (options.size() < 2) return 1;
    // The first option gives all threads the same number of tiles, at least one.
    auto even = std::find_if(options.begin(), options.end(), [&](int64_t p) {
      return tiles * p >= threads && tiles * p % threads == 0;
    });
    if (even != options.end()) std::rotate(options.begin(), even, std::next(even));
    return c_.t.choose(key("parts"), options);
  }

  struct Registers {
    int64_t count, vectors;  // rows of the tile; vectors per row
  };

  // Accumulators of `count` rows, with some vectors along `along` each: at most so many `registers`.
  Registers choose_registers(const std::string& what, int64_t rows, int64_t along,
                             int64_t registers, const std::vector<int64_t>& sizes,
                             const std::vector<int64_t>& rows_of_tiles) {
    std::vector<int64_t> vectors;
    for (int64_t v : sizes) {
      if (v == 1 || (along % (v * lanes_) == 0 && v <= registers)) vectors.push_back(v);
    }
    // Counts that leave registers for a few rows come first.
    std::stable_partition(vectors.begin(), vectors.end(), [&](int64_t v) {
      return v * std::min<int64_t>(rows, rows_of_tiles.front()) <= registers;
    });
    const int64_t chosen = c_.t.choose(key(what + ".vectors"), vectors);
    std::vector<int64_t> counts;
    for (int64_t r : rows_of_tiles) {
      const bool is_new = std::ranges::find(counts, r) == counts.end();
      if (is_new && r * chosen <= registers && rows % r == 0) counts.push_back(r);
    }
    return {c_.t.choose(key(what + ".rows"), counts), chosen};
  }

  // Places everything of a query tile under one parallel loop, and everything of a block of keys
  // under the loop inside. Scores and weights are transposed if vectors run along queries, so that
  // neighbouring queries are contiguous.
  void place() {
    if (parts_ > 1) key_parts_ = split_keys(c_.s, chain_, parts_);
    OnlineLoops loops = key_parts_
                            ? place_key_parts(c_.s, chain_, *key_parts_, row_tile_, key_tile_)
                            : place_softmax_chain(c_.s, chain_, row_tile_, key_tile_);
    if (!along_keys_) lay_rows_last(c_.s, chain_);
    made_ = std::move(loops.made);
    c_.s.parallel(loops.tile);
    place_operands(loops.tile, loops.step);
  }

  // The scores' operand with queries is transposed in a copy per tile if vectors run along queries. The others are
  // read as they are, copied in the type in which they are multiplied, or made per block of keys.
  void place_operands(const Loop& tile, const Loop& step) {
    const ScoreOperands operands = score_operands(c_.s, chain_);
    place_copy(chain_.scores, operands.rows, tile, !along_keys_);
    if (!along_keys_) place_copy(chain_.scores, operands.keys, step, false);
    // One register tile of all rows uses each value once.
    const bool once = along_keys_ && product_.count == row_tile_;
    const std::string values = value_operand(c_.s, chain_);
    once ? read_in_place(values) : place_copy(chain_.product, values, step, false);
  }

  // Makes an operand's elements where they are used, if it is no parameter.
  void read_in_place(const std::string& name) {
    if (const auto maker = maker_of(c_.s, chain_, name)) c_.s.compute_inline(*maker);
  }

  void place_copy(const Block& reader, const std::string& name, const Loop& at, bool across) {
    const std::optional<Block> maker = maker_of(c_.s, chain_, name);
    const std::optional<ElemType> wide = maker ? std::nullopt : widened_type(c_.s, reader, name);
    if (!wide && !across && !maker) return;
    const Block copy = maker  ? *maker
                       : wide ? c_.s.widen_operand(name, *wide, 0)
                              : c_.s.cache_read(reader, name, Scope::Global);
    c_.s.compute_at(copy, at);
    if (!across) return vectorize_innermost(c_, copy, 1);
    const Buffer& buffer = c_.s.output(copy);
    const size_t rank = buffer->shape.size();
    c_.s.transform_layout(buffer->name, moved_index(rank, row_axis(buffer->name), rank - 1));
  }

  // The axis of the scores' operand along which its rows lie.
  size_t row_axis(const std::string& operand) const {
    const BlockNode& scores = c_.s.node(chain_.scores);
    const Var& row = scores.iters[scores.iters.size() - 3].var;
    const std::vector<Expr> indices = indices_of(scores, operand);
    for (size_t d = 0; d < indices.size(); ++d) {
      if (uses_var(indices[d], row)) return d;
    }
    return indices.size() - 2;
  }

  // Scores[query, key] of a block of keys, with vectors along queries.
  void tile_scores() {
    std::vector<Loop> loops = c_.s.loops(chain_.scores);
    const size_t n = loops.size();
    std::vector<Loop> query = c_.s.split(loops[n - 3], {-1, scores_.vectors * lanes_});
    std::vector<Loop> key = c_.s.split(loops[n - 2], {-1, scores_.count});
    std::vector<Loop> terms = c_.s.split(loops[n - 1], {-1, unroll("scores")});
    c_.s.reorder({query[0], key[0], terms[0], terms[1], key[1], query[1]});
    const Block init = c_.s.decompose_reduction(chain_.scores, terms[0]);
    c_.s.unroll(terms[1]);
    c_.s.unroll(key[1]);
    c_.s.vectorize(query[1]);
    std::vector<Loop> starts = c_.s.loops(init);
    c_.s.vectorize(starts.back());
    c_.s.unroll(starts[starts.size() - 2]);
  }

  // Scores[query, key] of a block of keys: the dot products of a query with as many keys as a vector has
  // lanes, whose vectors lie along the terms.
  void dot_scores() {
    std::vector<Loop> loops = c_.s.loops(chain_.scores);
    const size_t n = loops.size();
    const int64_t terms = largest_extent(c_.s, c_.s.node(loops[n - 1]).extent);
    std::vector<Loop> key = c_.s.split(loops[n - 2], {-1, lanes_});
    // Parts of about the same length: a short last one would cost as much as the others.
    const int64_t parts = ceil_div(terms, kDotVectors * lanes_);
    const int64_t length = std::min(terms, round_up(ceil_div(terms, parts), lanes_));
    std::vector<Loop> term = c_.s.split(loops[n - 1], {-1, length});
    c_.s.reorder({key[0], loops[n - 3], term[0], key[1], term[1]});
    const std::string keys = score_operands(c_.s, chain_).keys;
    row_tile_ == 1 ? read_in_place(keys) : place_copy(chain_.scores, keys, key[0], false);
    const Block init = c_.s.decompose_reduction(chain_.scores, term[0]);
    c_.s.vectorize(c_.s.loops(init).back());
    c_.s.vectorize_reduction(key[1]);
  }

  int64_t unroll(const std::string& what) {
    return c_.t.choose(key(what + ".unroll"), std::vector<int64_t>{4, 1, 2, 8});
  }

  // Accumulates Product[query, column] over a block of keys, with vectors along columns.
  void tile_product() {
    std::vector<Loop> loops = c_.s.loops(chain_.product);
    const size_t n = loops.size();
    std::vector<Loop> query = c_.s.split(loops[n - 3], {-1, product_.count});
    std::vector<Loop> column = c_.s.split(loops[n - 2], {-1, product_.vectors * lanes_});
    std::vector<Loop> terms = c_.s.split(loops[n - 1], {-1, unroll("product")});
    c_.s.reorder({query[0], column[0], terms[0], terms[1], query[1], column[1]});
    c_.s.unroll(terms[1]);
    c_.s.unroll(query[1]);
    c_.s.vectorize(column[1]);
  }

  int64_t query_width() const {
    int64_t width = vectors_ * lanes_;
    while (row_tile_ % width != 0) width /= 2;
    return width;
  }

  // The maximum and the sum of the weights.
  void tile_row_reduction(const Block& block) {
    std::vector<Loop> loops = c_.s.loops(block);
    if (along_keys_) return c_.s.vectorize_reduction(loops.back());
    const Loop key = loops.back();
    std::vector<Loop> query = c_.s.split(loops[loops.size() - 2], {-1, query_width()});
    c_.s.reorder({query[0], key, query[1]});
    c_.s.vectorize(query[1]);
  }

  // A value per query and key.
  void tile_weights(const Block& block) {
    if (along_keys_) return vectorize_innermost(c_, block, vectors_);
    std::vector<Loop> loops = c_.s.loops(block);
    const Loop key = loops.back();
    std::vector<Loop> query = c_.s.split(loops[loops.size() - 2], {-1, query_width()});
    c_.s.reorder({key, query[0], query[1]});
    c_.s.vectorize(query[1]);
  }

  void vectorize_rows() {
    tile_weights(chain_.weights);
    if (chain_.terms) tile_weights(*chain_.terms);
    for (const Block& b : made_) vectorize_innermost(c_, b, vectors_);
    if (!key_parts_) return;
    for (const Block& b : key_parts_->left) vectorize_innermost(c_, b, vectors_);
  }

  // Adds the parts' results in order, a row at a time.
  void join_parts(const KeyParts& parts) {
    c_.s.compute_inline(parts.scale);
    std::vector<Loop> loops = c_.s.loops(parts.result);
    const Loop row = parallel_over(c_, {loops.begin(), loops.end() - 1});
    std::vector<Block> reductions = parts.sums;
    reductions.push_back(parts.top);
    for (const Block& b : reductions) c_.s.compute_at(b, row);
    for (const Block& b : reductions) {
      loops = c_.s.loops(b);
      const Loop part = loops.back();
      const bool has_columns = has_columns_of(b);
      if (has_columns) c_.s.reorder({part, loops[loops.size() - 2]});
      const Block init = c_.s.decompose_reduction(b, part);
      if (!has_columns) continue;
      vectorize_innermost(c_, init, 1);
      vectorize_innermost(c_, b, 1);
    }
    vectorize_innermost(c_, parts.result, 1);
  }
  // Whether a block has columns besides the row, like the product.
  bool has_columns_of(const Block& b) const {
    return c_.s.output(b)->rank() > c_.s.output(key_parts_->top)->rank();
  }

  RuleContext& c_;
  SoftmaxChain chain_;
  int64_t lanes_ = 1, shared_ = 1;  // `shared_`: heads that share their keys
  bool along_keys_ = false;         // vectors of scores run along keys, not along queries
  int64_t row_tile_ = 1, key_tile_ = 1, vectors_ = 1;
  int64_t parts_ = 1;
  Registers scores_{}, product_{};
  std::vector<Block> made_;
  std::optional<KeyParts> key_parts_;
};

}  // namespace

bool fuse_attention(RuleContext& c) {
  follow_product(c.s);
  std::optional<SoftmaxChain> chain = find_softmax_chain(c.s);
  if (!chain) return false;
  OnlineAttention attention(c, *chain);
  const std::vector<std::string> ways = {"online", "apart"};
  if (!attention.fits()) return false;
  if (c.t.choose(chain->top.name + ".softmax", ways) == "apart") return false;
  attention.run();
  return true;
}

}  // namespace tilewright
