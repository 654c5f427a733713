#include "tuner/rules/cpu/tile_plan.h"

#include <algorithm>
#include <numeric>

#include "base/ceil_div.h"
#include "ir/predicates.h"
#include "ir/visitor.h"
#include "tuner/rules/cpu/options.h"

namespace tilewright {
namespace {

constexpr int64_t kMostUnrolled = 128;  // vector operations in one copy of the innermost code
constexpr int64_t kLeastGroupLoop = 8;  // elements per scale that justify a loop
constexpr int64_t kWorthATile = 24;     // reads per element
// Result tiles, for an intrinsic that multiplies tiles: two of eight registers hold operands. Two by
// two results need the fewest loads in a square that leaves registers for all their operands.
constexpr int64_t kMostTiles = 6;
constexpr int64_t kPreferredTiles = 2;
// The shortest chunks of a reduction, in its elements or tiles.
constexpr int64_t kLeastChunk = 64, kLeastTileChunk = 4;
constexpr size_t kS0 = 0, kS1 = 1, kS2 = 2, kS3 = 3;

}  // namespace

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

TilePlan::TilePlan(RuleContext& c, Block block, std::optional<TensorTile> tensor,
                   std::optional<GroupScale> groups)
    : c_(c), block_(std::move(block)), facts_(analyze(c.s, block_)), tensor_(tensor),
      groups_(std::move(groups)) {
  for (const IterVar& iter : node().iters) names_.push_back(iter.var.name());
}

// A dynamic axis has as many spatial tiles as cover it. A dynamic reduction is one loop.
std::vector<int64_t> TilePlan::split_factors(int iter) const {
  std::vector<int64_t> result = factors(iter);
  bool spatial = node().iters[static_cast<size_t>(iter)].kind == IterKind::Spatial;
  if (dynamic(iter)) result[place_of(spatial ? Level::S0 : Level::R1)] = -1;
  return result;
}

void TilePlan::choose() {
  vector_iter_ = pick_vector_iter();
  if (!tensor_) find_phases();
  choose_registers(accumulator_budget());
  choose_widening();
  for (int i : facts_.spatial) choose_outer_levels(i);
  choose_reduction();
  for (auto [i, period] : phases_) factors_[i].push_back(period);
  choose_orders();
}

// Finds iterators in an index of a producer that is nonzero only at every s-th element (a
// transposed convolution's input with its stuffed zeros).
void TilePlan::find_phases() {
  for (const Block& p : c_.s.producers(block_)) {
    if (c_.s.consumers(p).size() != 1) continue;
    std::map<int, int64_t> found;
    std::vector<int64_t> periods = zero_periods(c_.s.node(p));
    std::vector<Expr> indices = indices_of(node(), c_.s.output(p)->name);
    for (size_t d = 0; d < periods.size() && d < indices.size(); ++d) {
      if (periods[d] < 2) continue;
      for (size_t i = 0; i < node().iters.size(); ++i) {
        int n = static_cast<int>(i);
        if (n != vector_iter_ && !dynamic(n) && uses_var(indices[d], node().iters[i].var) &&
            facts_.extents[n] >= periods[d]) {
          found[n] = periods[d];
        }
      }
    }
    if (found.empty()) continue;
    if (c_.t.choose(key(p.name + ".phases"), std::vector<std::string>{"apart", "together"}) ==
        "apart") {
      phases_.insert(found.begin(), found.end());
      apart_.push_back(p);
    }
  }
}

int64_t TilePlan::phase(int iter) const {
  auto it = phases_.find(iter);
  return it == phases_.end() ? 1 : it->second;
}

int64_t TilePlan::extent(int iter) const {
  return ceil_div(facts_.extents[static_cast<size_t>(iter)], phase(iter));
}

int64_t TilePlan::accumulator_budget() const {
  return c_.input.target.vector_registers >= 32 ? 28 : 12;
}

int64_t TilePlan::lanes() const { return lanes_of_results(c_.s, block_, c_.input.target); }

// The iterator whose neighbours are neighbours in the output, or another one for which the weight
// can be laid out (a convolution over `nchw`). In the second case the output is transposed once for
// the whole reduction, and short rows do not leave lanes empty.
int TilePlan::pick_vector_iter() {
  if (tensor_) return tensor_->lanes;
  const StoreNode& store = store_of(node());
  int last = store.indices.empty() ? -1 : plain_iterator(node(), store.indices.back());
  if (last < 0) return facts_.spatial.back();
  std::optional<int> other = weight_lanes(last);
  if (!other) return last;
  auto name = [&](int iter) { return names_[static_cast<size_t>(iter)]; };
  std::vector<std::string> ways = {name(last), name(*other)};
  if (dynamic(last) || extent(last) % lanes() != 0) std::swap(ways[0], ways[1]);
  return c_.t.choose(key("lanes"), ways) == name(last) ? last : *other;
}

// A spatial iterator long enough for vectors, alone in an output dimension, that some weight has
// without `last`.
std::optional<int> TilePlan::weight_lanes(int last) const {
  for (const std::string& name : inputs_of(node())) {
    if (!is_weight(c_.s, name)) continue;
    std::vector<Expr> indices = indices_of(node(), name);
    auto used = [&](int iter) {
      return uses_iterator(indices, node().iters[static_cast<size_t>(iter)]);
    };
    if (used(last)) continue;
    for (const Expr& index : store_of(node()).indices) {
      int i = plain_iterator(node(), index);
      const bool fits = i >= 0 && used(i) && !dynamic(i);
      if (fits && 2 * facts_.extents[static_cast<size_t>(i)] > lanes() && !scatters(i)) return i;
    }
  }
  return std::nullopt;
}

// Whether lanes along the iterator would be loaded one by one from a parameter that no copy puts in
// order: a window over each channel.
bool TilePlan::scatters(int iter) const {
  return std::ranges::any_of(inputs_of(node()), [&](const std::string& name) {
    const std::vector<Expr> indices = indices_of(node(), name);
    if (!find_param(c_.s, name) || is_weight(c_.s, name)) return false;
    auto is_plain = [&](const Expr& e) { return plain_iterator(node(), e) >= 0; };
    return dimension_across(node(), indices, iter, lanes()) &&
           !std::ranges::all_of(indices, is_plain);
  });
}

void TilePlan::choose_registers(int64_t budget) {
  if (tensor_) factors_[vector_iter_] = {1, 1, 1, extent(vector_iter_)};
  const bool tiles = tensor_ && tensor_->is_tile();
  if (tiles) budget = kMostTiles;
  int wide = vectors_iter();
  int64_t along = extent(wide), width = vector_step();
  int64_t most = std::max<int64_t>(1, ceil_div(along, width));
  const int64_t others = tiles ? other_work() / extent(tensor_->rows) : other_work();
  // With nothing else to block, wide tiles hide latency.
  int64_t preferred_vectors = std::min<int64_t>(others == 1 ? 8 : 4, budget);
  if (tiles && others > 1) preferred_vectors = kPreferredTiles;
  const std::vector<int64_t> counts = {1, 2, 3, 4, 5, 6, 8};
  const int64_t widest = std::min<int64_t>({most, 8, budget});
  if (!tiles) preferred_vectors = fitting(counts, widest, preferred_vectors, most);
  int64_t vectors = c_.t.choose(key(wide, "vectors"), up_to(counts, widest, preferred_vectors));
  factors_[wide] = {1, 1, 1, std::min(width * vectors, round_up_lanes(along))};
  registers_ = vectors;
  int64_t left = std::max<int64_t>(1, budget / vectors);
  for (int i : row_order()) {
    if (i == vector_iter_ || i == wide) continue;
    if (is_rows(i)) {
      factors_[i] = {1, 1, 1, extent(i)};
      continue;
    }
    int64_t rows = 1;
    if (extent(i) > 1 && left > 1) {
      // Dot products of bytes take the weight from registers, too.
      const bool bytes = groups_ && groups_->sums == ElemType::i32;
      const std::vector<int64_t> sizes = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 28};
      int64_t preferred = bytes ? std::max<int64_t>(1, left / 2) : left;
      if (tiles) preferred = std::min(left, kPreferredTiles);
      const int64_t limit = std::min(left, extent(i));
      if (!tiles && !dynamic(i)) preferred = fitting(sizes, limit, preferred, extent(i));
      rows = c_.t.choose(key(i, "rows"), up_to(sizes, limit, preferred));
    }
    factors_[i] = {1, 1, 1, rows};
    registers_ *= rows;
    left = std::max<int64_t>(1, left / rows);
  }
}

// The spatial iterators, the innermost first, and before all others those along which what is read in vectors
// stays the same.
std::vector<int> TilePlan::row_order() const {
  std::vector<int> order(facts_.spatial.rbegin(), facts_.spatial.rend());
  const IterVar& lane = node().iters[static_cast<size_t>(vector_iter_)];
  std::stable_partition(order.begin(), order.end(), [&](int iter) {
    return std::ranges::none_of(inputs_of(node()), [&](const std::string& name) {
      const std::vector<Expr> indices = indices_of(node(), name);
      return uses_iterator(indices, lane) &&
             uses_iterator(indices, node().iters[static_cast<size_t>(iter)]);
    });
  });
  return order;
}

// A power of two of lanes that covers a short extent, so that narrow outputs use narrow vectors.
int64_t TilePlan::round_up_lanes(int64_t extent) const {
  int64_t width = vector_step();
  if (extent >= width) return INT64_MAX;
  int64_t p = 1;
  while (p < extent) p *= 2;
  return p;
}

bool TilePlan::lanes_in_all() const {
  const IterVar& lane = node().iters[static_cast<size_t>(vector_iter_)];
  return !tensor_ && std::ranges::all_of(inputs_of(node()), [&](const std::string& name) {
    return uses_iterator(indices_of(node(), name), lane);
  });
}

int64_t TilePlan::other_work() const {
  int64_t work = 1;
  for (int i : facts_.spatial)
    work *= i == vector_iter_ || i == vectors_iter() ? 1 : facts_.extents[i];
  return work;
}

int64_t TilePlan::reuse(const std::vector<Expr>& indices) const {
  int64_t times = 1;
  for (int i : facts_.spatial) {
    bool used = std::any_of(indices.begin(), indices.end(),
                            [&](const Expr& e) { return plain_iterator(node(), e) == i; });
    if (!used) times *= facts_.extents[static_cast<size_t>(i)];
  }
  return times;
}

bool TilePlan::worth_a_tile(const std::vector<Expr>& indices) const {
  return reuse(indices) >= kWorthATile;
}

void TilePlan::choose_widening() {
  if (!groups_ || !groups_->widened) return;
  std::vector<Expr> indices = indices_of(node(), groups_->widened->name);
  std::vector<std::string> ways = {"registers", "tile"};
  if (groups_->each_lane) {  // each lane looks up its operands at the multiplication
    ways = {"registers"};
  } else if (worth_a_tile(indices)) {
    std::swap(ways[0], ways[1]);
    // Byte products are so fast that unpacking codes for each row tile would cost too much.
    const bool integers = groups_->sums == ElemType::i32;
    if (panel_fits(indices)) ways.insert(integers ? ways.begin() : ways.end(), "panel");
  }
  const std::string way = c_.t.choose(key(groups_->widened->name), ways);
  widening_ = way == "registers" ? Widening::Registers
              : way == "tile"    ? Widening::Tile
                                 : Widening::Panel;
}

// Whether a tile's columns over the whole reduction leave room in L2. The loops around a panel are
// those of the weight; the number of the others must be static.
bool TilePlan::panel_fits(const std::vector<Expr>& indices) const {
  int64_t elements = 1;
  for (const Expr& index : indices) {
    int i = plain_iterator(node(), index);
    bool spatial = i >= 0 && node().iters[static_cast<size_t>(i)].kind == IterKind::Spatial;
    if (i < 0 || dynamic(i)) return false;
    elements *= spatial ? factor(i, Level::S3) : facts_.extents[static_cast<size_t>(i)];
  }
  for (int i : facts_.spatial) {
    if (dynamic(i)) return false;
  }
  const int bits = bits_of(tensor_->row->semantics().operands()[2]->elem);
  return 2 * elements * bits / 8 <= c_.input.target.l2_bytes;
}

void TilePlan::choose_outer_levels(int i) {
  std::vector<int64_t>& f = factors_[i];
  int64_t left = ceil_div(extent(i), f[kS3]);
  if (in_panel()) {
    const std::vector<Expr> indices = indices_of(node(), groups_->widened->name);
    bool ours = std::any_of(indices.begin(), indices.end(),
                            [&](const Expr& e) { return plain_iterator(node(), e) == i; });
    f[ours ? kS0 : kS1] = left;
    return;
  }
  if (left > 1) {
    f[kS2] = c_.t.choose(key(i, "s2"),
                         up_to({1, 2, 3, 4, 6, 8, 12, 16, 32}, left, i == vectors_iter() ? 1 : 8));
    left = ceil_div(left, f[kS2]);
  }
  if (left > 1) {
    f[kS1] = c_.t.choose(key(i, "s1"), up_to({1, 2, 4, 8, 16}, left, 1));
    left = ceil_div(left, f[kS1]);
  }
  f[kS0] = left;
}

// The format of the weight that is dequantized for this block, or null.
const WeightFormat* TilePlan::weight() const {
  bool ours = weight_value_of(c_.s, block_, c_.input.workload).has_value();
  return ours ? &*c_.input.workload.weight : nullptr;
}

// Elements of the stored weight per 32-bit word; 1 if they have words or bytes of their own.
int TilePlan::word_elements() const {
  if (!weight()) return 1;
  int bits = bits_of(stored_weight(c_.input.workload).buffer->elem);
  return bits < 8 ? 32 / bits : 1;
}

// Only chunks that divide the reduction: a remainder costs another copy of the innermost code. If
// elements share a scale along it, a chunk within a group reads the scale once.
std::vector<int64_t> TilePlan::chunks_of(int64_t length) const {
  if (groups_ && groups_->length < length) return chunks_of(groups_->length);
  std::vector<int64_t> chunks = {length};
  const int64_t least = tensor_ && tensor_->is_tile() ? kLeastTileChunk : kLeastChunk;
  for (int64_t pieces = 2; length / pieces >= least && chunks.size() < 6; ++pieces) {
    const int64_t words = groups_ ? groups_->word : 1;
    if (length % (pieces * words) == 0) chunks.push_back(length / pieces);
  }
  const WeightFormat* format = groups_ ? nullptr : weight();
  int64_t group = format && format->group > 0 ? std::gcd(format->group, length) : 0;
  if (group < kLeastGroupLoop || group == length) return chunks;
  std::erase(chunks, group);
  chunks.insert(chunks.begin(), group);
  return chunks;
}

std::vector<int64_t> TilePlan::unrolls_of(int64_t chunk) const {
  if (groups_ && (groups_->widened || groups_->masked)) return {groups_->word};
  std::vector<int64_t> unrolls = {1};
  for (int64_t u : {2, 4}) {
    if (chunk % u == 0 && registers_ * u <= kMostUnrolled) unrolls.push_back(u);
  }
  // Neighbours in a short, fully unrolled window share their loads.
  if (chunk <= 7 && chunk != 4 && chunk > 2 && registers_ * chunk <= kMostUnrolled) {
    unrolls.push_back(chunk);
  }
  // The elements unpacked from one word of a stored weight are unrolled together.
  const int64_t word = word_elements();
  if (word > 4 && chunk % word == 0 && registers_ * word <= 2 * kMostUnrolled) {
    unrolls.insert(unrolls.begin(), word);
  }
  return unrolls;
}

bool TilePlan::fills_words(ElemType elem) const {
  int64_t unrolled = 1;
  for (int i : facts_.reduce) unrolled *= factor(i, Level::R2);
  return bits_of(elem) < 8 && unrolled * bits_of(elem) == 32;
}

// The longest reduction is cut for the cache and unrolled; the others run whole around it.
void TilePlan::choose_reduction() {
  int longest = facts_.reduce[0];
  // Elements at other positions of a window have their own scales.
  const bool apart_window = groups_ && !groups_->whole_window;
  for (int i : facts_.reduce) {
    factors_[i] = {1, extent(i), 1};
    if (is_terms(i)) factors_[i] = {1, 1, extent(i)};
    if (apart_window && i != groups_->k && !is_terms(i)) factors_[i] = {extent(i), 1, 1};
    bool longer = dynamic(longest) || extent(i) >= extent(longest);
    if (!is_terms(i) && !dynamic(i) && longer) longest = i;
  }
  if (groups_) longest = groups_->k;
  int64_t length = extent(longest);
  if (dynamic(longest)) return;
  int64_t chunk = c_.t.choose(key(longest, "chunk"), chunks_of(length));
  int64_t unroll = c_.t.choose(key(longest, "unroll"), unrolls_of(chunk));
  factors_[longest] = {ceil_div(length, chunk), ceil_div(chunk, unroll), unroll};
  for (int i : facts_.reduce) {
    bool short_window = extent(i) >= 2 && extent(i) <= 7 && !dynamic(i);
    if (i == longest || is_terms(i) || !short_window || apart_window) continue;
    int64_t copies = registers_ * unroll * extent(i);
    if (copies > kMostUnrolled) continue;
    if (c_.t.choose(key(i, "whole"), std::vector<std::string>{"loop", "unroll"}) == "unroll") {
      factors_[i] = {1, 1, extent(i)};
      unroll *= extent(i);
    }
  }
}

void TilePlan::choose_orders() {
  if (facts_.spatial.size() < 2 || in_panel()) return;
  std::vector<std::string> word = {"spatial", "reversed"};
  reverse_outer_ = c_.t.choose(key("outer_order"), word) == "reversed";
  reverse_inner_ = c_.t.choose(key("inner_order"), word) == "reversed";
}

std::vector<std::pair<Level, int>> TilePlan::nest() const {
  std::vector<std::pair<Level, int>> order;
  auto spatial = [&](Level level, bool reversed) {
    std::vector<int> iters = facts_.spatial;
    if (reversed) std::reverse(iters.begin(), iters.end());
    for (int i : iters) order.emplace_back(level, i);
  };
  auto reduce = [&](Level level) {
    for (int i : facts_.reduce) {
      if (level != Level::R2 || !is_terms(i)) order.emplace_back(level, i);
    }
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
  // Each vector is used completely before the next one.
  const bool in_turn = widening_ == Widening::Registers;
  if (in_turn) order.emplace_back(Level::S3, vectors_iter());
  reduce(Level::R2);
  for (int i : facts_.spatial) {
    bool placed = in_turn && i == vectors_iter();
    if (i != vector_iter_ && !placed) order.emplace_back(Level::S3, i);
  }
  // In tiles the lanes and their k neighbours are innermost, as in the second operand.
  const bool tile = tensor_ && tensor_->is_tile();
  if (tile) order.emplace_back(Level::R2, tensor_->terms);
  order.emplace_back(Level::S3, vector_iter_);
  if (tensor_) order.emplace_back(Level::R2, tile ? tensor_->pairs : tensor_->terms);
  return order;
}

}  // namespace tilewright
