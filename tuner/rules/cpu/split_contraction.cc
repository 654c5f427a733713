// Split-K: reductions of contractions in parts.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/ceil_div.h"
#include "schedule/primitives/loops/reduction.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/rules.h"

namespace tilewright {
namespace {

constexpr int64_t kLeastTerms = 256;  // per part
constexpr int64_t kTilesAThread = 4;  // result tiles per thread that give it enough work
constexpr int64_t kSumsInRegisters = 28, kWidestTile = 8;  // accumulator vectors per tile; per row
constexpr int64_t kSumsInFlight = 8;  // additions that hide each other's latency

class Splitter {
 public:
  Splitter(RuleContext& c, const Block& block)
      : c_(c), block_(block), facts_(analyze(c.s, block)) {}

  Block run() {
    std::optional<int> terms = long_reduction();
    if (!terms || !is_free_to_split()) return block_;
    std::vector<int64_t> options = parts_of(facts_.extents[*terms]);
    if (options.size() < 2) return block_;
    if (!likely_pays()) std::reverse(options.begin(), options.end());
    const IterVar& iter = node().iters[*terms];
    int64_t parts = c_.t.choose(block_.name + "." + iter.var.name() + ".parts", options);
    if (parts == 1) return block_;
    const Var k = iter.var;
    const int64_t length = facts_.extents[*terms] / parts;
    Loop loop = c_.s.loops(block_)[*terms];
    std::vector<Loop> cut = c_.s.split(loop, {parts, length});
    std::map<std::string, size_t> weights = weights_along(k);
    Block sums = c_.s.rfactor(block_, cut[0], 0);
    for (const auto& [weight, d] : weights) lay_out(weight, d, length);
    add_up();
    return sums;
  }

 private:
  const BlockNode& node() { return c_.s.node(block_); }

  // The longest reduction, if it alone outweighs all results.
  std::optional<int> long_reduction() {
    if (facts_.reduce.empty()) return std::nullopt;
    auto longest = *std::max_element(facts_.reduce.begin(), facts_.reduce.end(), [&](int a, int b) {
      return facts_.extents[a] < facts_.extents[b];
    });
    int64_t elements = 1;
    for (int i : facts_.spatial) elements *= facts_.extents[i];
    bool few = tiles() < kTilesAThread * c_.input.threads;
    bool outweighs = facts_.extents[longest] >= std::max(2 * elements, 4 * kLeastTerms);
    if (!few || !outweighs || facts_.dynamic[longest]) return std::nullopt;
    return longest;
  }

  // All results: rows, and vectors along each.
  std::pair<int64_t, int64_t> results() {
    const StoreNode& store = store_of(node());
    int last = store.indices.empty() ? -1 : plain_iterator(node(), store.indices.back());
    const int64_t lanes = lanes_of_results(c_.s, block_, c_.input.target);
    int64_t along = last < 0 ? 1 : ceil_div(facts_.extents[last], lanes), rows = 1;
    for (int i : facts_.spatial) rows *= i == last ? 1 : facts_.extents[i];
    return {rows, along};
  }

  // The number of result tiles, as wide or as tall as registers allow.
  int64_t tiles() {
    const auto [rows, along] = results();
    return rows == 1 ? ceil_div(along, kWidestTile) : ceil_div(rows * along, kSumsInRegisters);
  }

  // Whether parts are likely to pay: they give other threads work, or one thread sums to add to while
  // it waits for others.
  bool likely_pays() {
    const auto [rows, along] = results();
    return c_.input.threads > 1 || rows * along < kSumsInFlight;
  }

  // A plain sum, still as lowered. The groups of a weight in a form of its own run along k, so it
  // cannot be split.
  bool is_free_to_split() {
    const std::optional<WeightFormat>& format = c_.input.workload.weight;
    bool plain = match_reduction(node()).reducer == Reducer::Sum &&
                 c_.s.loops(block_).size() == node().iters.size();
    return plain && !format;
  }

  // A few numbers of parts of equal length.
  static std::vector<int64_t> parts_of(int64_t terms) {
    std::vector<int64_t> options;
    for (int64_t parts : {4, 2, 8, 16, 3, 5, 6}) {
      bool whole = terms % parts == 0 && terms / parts >= kLeastTerms;
      if (whole && options.size() < 4) options.push_back(parts);
    }
    options.push_back(1);
    return options;
  }

  // The weights' dimensions along k, by name.
  std::map<std::string, size_t> weights_along(const Var& k) {
    std::map<std::string, size_t> found;
    for (const std::string& name : inputs_of(node())) {
      if (!is_weight(c_.s, name)) continue;
      std::vector<Expr> indices = indices_of(node(), name);
      for (size_t d = 0; d < indices.size(); ++d) {
        if (indices[d].same_as(k)) found[name] = d;
      }
    }
    return found;
  }

  // Splits the weight's dimension along k into the part and the position inside it, an iterator
  // each.
  void lay_out(const std::string& weight, size_t d, int64_t length) {
    auto rank = static_cast<int>(find_param(c_.s, weight)->buffer->rank());
    c_.s.prepack(weight, IndexMap::make(rank, [&](const std::vector<Var>& x) {
                   std::vector<Expr> out;
                   for (size_t i = 0; i < x.size(); ++i) {
                     if (i == d) out.push_back(floordiv(x[i], length));
                     out.push_back(i == d ? floormod(x[i], length) : Expr(x[i]));
                   }
                   return out;
                 }));
  }

  // Adds the parts in order, a vector of results at a time.
  void add_up() {
    std::vector<Loop> loops = c_.s.loops(block_);
    if (loops.size() < 2) return;
    const Loop parts = loops.back(), along = loops[loops.size() - 2];
    const int64_t lanes = lanes_of_results(c_.s, block_, c_.input.target);
    std::vector<Loop> pieces = c_.s.split(along, {-1, lanes});
    c_.s.reorder({pieces[0], parts, pieces[1]});
    Block start = c_.s.decompose_reduction(block_, parts);
    vectorize_innermost(c_, start, 1);
    c_.s.vectorize(pieces[1]);
  }

  RuleContext& c_;
  const Block& block_;
  BlockFacts facts_;
};

}  // namespace

Block split_contraction(RuleContext& c, const Block& block) { return Splitter(c, block).run(); }

}  // namespace tilewright
