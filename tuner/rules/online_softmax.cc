// Two contractions with a softmax between them (attention), in one loop over blocks of keys.
#include <algorithm>
#include <optional>

#include "ir/visitor.h"
#include "schedule/primitives/reduction.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/rules.h"
#include "tuner/rules/widened_copy.h"

namespace tilewright {
namespace {

constexpr int64_t kSumRegisters = 12;  // of 16: the others are for operands

// The blocks, by what they are to the softmax.
struct Chain {
  Block scores, top, weights, sum, product, result;
};

bool is_maximum(const BlockNode& block) {
  return match_reduction(block).reducer == Reducer::Max;
}

bool has(const std::vector<Block>& list, const Block& block) {
  return std::find(list.begin(), list.end(), block) != list.end();
}

// The only block of `list` that has this role, or nothing.
std::optional<Block> only(const Schedule& s, const std::vector<Block>& list, BlockRole role) {
  std::optional<Block> found;
  for (const Block& b : list) {
    if (analyze(s, b).role != role) continue;
    if (found) return std::nullopt;
    found = b;
  }
  return found;
}

// Whether the block stores at its spatial iterators, in their order.
bool in_order(const BlockNode& block) {
  size_t d = 0;
  const std::vector<Expr>& indices = store_of(block).indices;
  for (const IterVar& iter : block.iters) {
    if (iter.kind == IterKind::Reduce) continue;
    if (d == indices.size()) return false;
    bool here = indices[d].same_as(iter.var) || (is_int(iter.extent, 1) && is_int(indices[d], 0));
    if (!here) return false;
    ++d;
  }
  return d == indices.size();
}

std::optional<Chain> find_chain(const Schedule& s) {
  const std::vector<Block> blocks = s.blocks();
  if (blocks.size() != 6) return std::nullopt;
  auto top = std::find_if(blocks.begin(), blocks.end(),
                          [&](const Block& b) { return is_maximum(s.node(b)); });
  if (top == blocks.end()) return std::nullopt;
  auto scores = only(s, s.producers(*top), BlockRole::Contraction);
  auto weights = only(s, s.consumers(*top), BlockRole::Injective);
  if (!scores || !weights || !has(s.producers(*weights), *scores)) return std::nullopt;
  const std::vector<Block> sums = s.consumers(*weights);
  auto sum = only(s, sums, BlockRole::RowReduction), product = only(s, sums, BlockRole::Contraction);
  if (!sum || !product) return std::nullopt;
  const Block& result = blocks.back();
  bool last = has(s.producers(result), *sum) && has(s.producers(result), *product) &&
              s.producers(result).size() == 2 &&
              analyze(s, result).role == BlockRole::Injective;
  if (!last) return std::nullopt;
  for (const Block& b : blocks) {
    const BlockFacts facts = analyze(s, b);
    bool fixed = std::none_of(facts.dynamic.begin(), facts.dynamic.end(), [](bool d) { return d; });
    bool reduces = b == *scores || b == *top || b == *sum || b == *product;
    if (!fixed || facts.reduce.size() != (reduces ? 1 : 0) || !in_order(s.node(b))) {
      return std::nullopt;
    }
  }
  return Chain{*scores, *top, *weights, *sum, *product, result};
}

class OnlineAttention {
 public:
  OnlineAttention(RuleContext& c, Chain chain) : c_(c), chain_(std::move(chain)) {
    const ElemType sums = store_of(c_.s.node(chain_.product)).buffer->elem;
    lanes_ = c_.input.target.lanes(bits_of(sums));
    const std::vector<int64_t> rows = analyze(c_.s, chain_.top).extents;
    rows_ = rows[rows.size() - 2];
    keys_ = rows.back();
    columns_ = analyze(c_.s, chain_.result).extents.back();
  }

  // Vectors run along queries in the scores, so there must be enough of these.
  bool fits() const { return lanes_ > 1 && rows_ >= lanes_; }

  void run() {
    choose();
    place();
    tile_scores();
    for (const Block& b : {chain_.top, chain_.sum}) tile_row_reduction(b);
    vectorize_rows();
    tile_product();
    vectorize_innermost(c_, chain_.result, 1);
  }

 private:
  std::string key(const std::string& what) const { return chain_.top.name + "." + what; }

  // The sizes that the extent is a multiple of in front of the others.
  static std::vector<int64_t> dividing_first(std::vector<int64_t> sizes, int64_t extent) {
    std::stable_partition(sizes.begin(), sizes.end(), [&](int64_t v) { return extent % v == 0; });
    return sizes;
  }

  void choose() {
    std::vector<int64_t> rows;
    for (int64_t v : {8, 4, 2, 16, 1, 6, 12}) {
      const int64_t size = v * lanes_;
      if (size < 2 * rows_ || v == 1) rows.push_back(size);
    }
    row_tile_ = c_.t.choose(key("rows"), dividing_first(rows, rows_));
    std::vector<int64_t> keys;
    for (int64_t v : {64, 32, 128, 48, 96, 256, 16}) {
      if (v < 2 * keys_ || v == 16) keys.push_back(v);
    }
    key_tile_ = c_.t.choose(key("keys"), dividing_first(keys, keys_));
    scores_ = choose_registers("scores", key_tile_, row_tile_);
    product_ = choose_registers("product", row_tile_, columns_);
    vectors_ = c_.t.choose(key("vectors"), std::vector<int64_t>{2, 4, 1});
  }

  struct Registers {
    int64_t count, vectors;  // rows of the tile, and vectors in each
  };

  // Sums of `count` rows by some vectors along `along`.
  Registers choose_registers(const std::string& what, int64_t rows, int64_t along) {
    std::vector<int64_t> vectors;
    for (int64_t v : {2, 1, 4, 3}) {
      if (v == 1 || along % (v * lanes_) == 0) vectors.push_back(v);
    }
    const int64_t chosen = c_.t.choose(key(what + ".vectors"), vectors);
    std::vector<int64_t> counts;
    for (int64_t r : {6, 4, 8, 12, 3, 2, 1}) {
      if (r * chosen <= kSumRegisters && rows % r == 0) counts.push_back(r);
    }
    return {c_.t.choose(key(what + ".rows"), counts), chosen};
  }

  // Everything of a tile of queries under one parallel loop, and of a block of keys under the loop in
  // there. Scores and weights lie across, so that neighbouring queries are neighbours.
  void place() {
    std::vector<Loop> loops = c_.s.loops(chain_.result);
    std::vector<Loop> rows(loops.begin(), loops.end() - 1);
    rows.back() = c_.s.split(rows.back(), {-1, row_tile_})[0];
    const Loop tile = rows.size() > 1 ? c_.s.fuse(rows) : rows[0];
    for (const Block& b : {chain_.product, chain_.sum, chain_.weights, chain_.top}) {
      c_.s.compute_at(b, tile);
    }
    c_.s.parallel(tile);
    auto [step, made] = c_.s.online_softmax(chain_.top, key_tile_);
    made_ = std::move(made);
    c_.s.compute_at(chain_.scores, step);
    for (const Block& b : {chain_.scores, chain_.weights}) {
      const Buffer& buffer = store_of(c_.s.node(b)).buffer;
      const size_t rank = buffer->shape.size();
      c_.s.transform_layout(buffer->name, moved_index(rank, rank - 2, rank - 1));
    }
    place_operands(tile, step);
  }

  // Of the scores' operands the one with queries lies across in a copy for each tile; the others are
  // read as they are, or copied in the type in which they are multiplied.
  void place_operands(const Loop& tile, const Loop& step) {
    const BlockNode& scores = c_.s.node(chain_.scores);
    const Var query = scores.iters[scores.iters.size() - 3].var;
    for (const std::string& name : inputs_of(scores)) {
      const std::vector<Expr> indices = indices_of(c_.s.node(chain_.scores), name);
      bool across = std::any_of(indices.begin(), indices.end(),
                                [&](const Expr& e) { return uses_var(e, query); });
      place_copy(chain_.scores, name, across ? tile : step, across);
    }
    for (const std::string& name : inputs_of(c_.s.node(chain_.product))) {
      if (find_param(c_.s, name)) place_copy(chain_.product, name, step, false);
    }
  }

  void place_copy(const Block& reader, const std::string& name, const Loop& at, bool across) {
    const std::optional<ElemType> wide = widened_type(c_.s, reader, name);
    if (!wide && !across) return;
    const Block copy =
        wide ? c_.s.widen_operand(name, *wide, 0) : c_.s.cache_read(reader, name, Scope::Global);
    c_.s.compute_at(copy, at);
    if (!across) return vectorize_innermost(c_, copy, 1);
    const Buffer& buffer = store_of(c_.s.node(copy)).buffer;
    const size_t rank = buffer->shape.size();
    c_.s.transform_layout(buffer->name, moved_index(rank, rank - 2, rank - 1));
  }

  // The loops of a block that is under others, one an iterator.
  std::vector<Loop> own_loops(const Block& block) const {
    std::vector<Loop> loops = c_.s.loops(block);
    const size_t own = c_.s.node(block).iters.size();
    return {loops.end() - static_cast<std::ptrdiff_t>(own), loops.end()};
  }

  // Scores[query, key] of a block of keys, vectors along queries.
  void tile_scores() {
    std::vector<Loop> loops = own_loops(chain_.scores);
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

  int64_t unroll(const std::string& what) {
    return c_.t.choose(key(what + ".unroll"), std::vector<int64_t>{4, 1, 2, 8});
  }

  // Product[query, column] of a block of keys, vectors along columns, onto what there is.
  void tile_product() {
    std::vector<Loop> loops = own_loops(chain_.product);
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

  // The maximum and the sum of the weights: a query a lane.
  void tile_row_reduction(const Block& block) {
    std::vector<Loop> loops = own_loops(block);
    const Loop key = loops.back();
    std::vector<Loop> query = c_.s.split(loops[loops.size() - 2], {-1, query_width()});
    c_.s.reorder({query[0], key, query[1]});
    c_.s.vectorize(query[1]);
  }

  void vectorize_rows() {
    std::vector<Loop> loops = own_loops(chain_.weights);
    const Loop key = loops.back();
    std::vector<Loop> query = c_.s.split(loops[loops.size() - 2], {-1, query_width()});
    c_.s.reorder({key, query[0], query[1]});
    c_.s.vectorize(query[1]);
    for (const Block& b : made_) vectorize_innermost(c_, b, vectors_);
  }

  RuleContext& c_;
  Chain chain_;
  int64_t lanes_ = 1;
  int64_t rows_ = 1, keys_ = 1, columns_ = 1;
  int64_t row_tile_ = 1, key_tile_ = 1, vectors_ = 1;
  Registers scores_{}, product_{};
  std::vector<Block> made_;
};

}  // namespace

bool fuse_attention(RuleContext& c) {
  std::optional<Chain> chain = find_chain(c.s);
  if (!chain) return false;
  OnlineAttention attention(c, *chain);
  const std::vector<std::string> ways = {"online", "apart"};
  if (!attention.fits()) return false;
  if (c.t.choose_added(chain->top.name + ".softmax", ways, "apart") == "apart") return false;
  attention.run();
  return true;
}

}  // namespace tilewright
