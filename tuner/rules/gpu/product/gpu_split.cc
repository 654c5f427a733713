#include "tuner/rules/gpu/product/gpu_split.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "ir/visitor.h"
#include "schedule/primitives/loops/reduction.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_roles.h"

namespace tilewright {
namespace {

constexpr int64_t kLeastPartTerms = 256;  // per part
constexpr int64_t kWholeTiles = 64;       // a part's k is a multiple of this: whole k tiles
constexpr int64_t kTile = 64;             // rows and columns of a typical result tile
constexpr int64_t kAdders = 256;          // threads per block of the second kernel

class TermSplitter {
 public:
  TermSplitter(RuleContext& c, const Block& block)
      : c_(c), block_(block), facts_(analyze(c.s, block)) {}

  Block run() {
    if (!is_free_to_split()) return block_;
    const int terms = longest_reduction();
    const int64_t blocks = tiles();
    std::vector<int64_t> options = parts_of(facts_.extents[static_cast<size_t>(terms)], blocks);
    if (options.size() < 2) return block_;
    const std::string name = node().iters[static_cast<size_t>(terms)].var.name();
    int64_t parts = c_.t.choose(block_.name + "." + name + ".parts", options);
    if (parts == 1) return block_;
    Loop loop = c_.s.loops(block_)[static_cast<size_t>(terms)];
    std::vector<Loop> cut = c_.s.split(loop, {parts, -1});
    Block sums = c_.s.rfactor(block_, cut[0], 0);
    add_up();
    return sums;
  }

 private:
  const BlockNode& node() { return c_.s.node(block_); }

  // A sum of products of two operands with static extents. The groups of a weight in a form of its
  // own run along k, so it cannot be split.
  bool is_free_to_split() {
    return gpu_is_static(facts_) && !facts_.reduce.empty() && inputs_of(node()).size() == 2 &&
           !c_.input.workload.weight && match_reduction(node()).reducer == Reducer::Sum &&
           c_.s.loops(block_).size() == node().iters.size();
  }

  int longest_reduction() const {
    return *std::max_element(facts_.reduce.begin(), facts_.reduce.end(), [&](int a, int b) {
      return facts_.extents[static_cast<size_t>(a)] < facts_.extents[static_cast<size_t>(b)];
    });
  }

  // The number of result tiles; for vectors, which have kernels of their own, the number of SMs.
  int64_t tiles() {
    std::vector<std::string> inputs = inputs_of(node());
    int64_t m = 1, n = 1, batch = 1;
    for (int x : facts_.spatial) {
      const IterVar& iter = node().iters[static_cast<size_t>(x)];
      bool in_a = uses_iterator(indices_of(node(), inputs[0]), iter),
           in_b = uses_iterator(indices_of(node(), inputs[1]), iter);
      (in_a && in_b ? batch : in_a ? m : n) *= facts_.extents[static_cast<size_t>(x)];
    }
    if (m == 1 || n == 1) return c_.input.target.gpu.sms;
    return ceil_div(m, kTile) * ceil_div(n, kTile) * batch;
  }

  // The first option is the least number of parts that gives each SM a block; only one part if each
  // SM has a block already.
  std::vector<int64_t> parts_of(int64_t terms, int64_t blocks) const {
    const int64_t sms = c_.input.target.gpu.sms;
    std::vector<int64_t> options;
    for (int64_t parts : {1, 2, 4, 8, 16, 3, 5, 6}) {
      bool whole = terms % (parts * kWholeTiles) == 0 && terms / parts >= kLeastPartTerms;
      if (parts == 1 || (whole && blocks * parts < 4 * sms)) options.push_back(parts);
    }
    if (blocks >= sms) return {1};
    auto enough = std::find_if(options.begin(), options.end(),
                               [&](int64_t parts) { return blocks * parts >= sms; });
    if (enough == options.end()) enough = std::prev(options.end());
    if (blocks * 2 <= sms) std::rotate(options.begin(), enough, std::next(enough));
    return options;
  }

  // Adds the parts in order, with a 16-byte vector of results per thread.
  void add_up() {
    Block last = gpu_place_result(c_, block_);
    std::vector<Loop> outer = c_.s.loops(block_);
    const Loop parts = outer.back();
    outer.pop_back();
    const int64_t along = *as_int(c_.s.node(outer.back()).extent);
    std::vector<Loop> pieces = c_.s.split(outer.back(), {-1, gpu_vector(c_, block_, along)});
    outer.back() = pieces[0];
    std::vector<Loop> order = outer;
    order.push_back(parts);
    order.push_back(pieces[1]);
    c_.s.reorder(order);
    std::vector<Loop> grid = gpu_thread_grid(c_, outer, kAdders);
    c_.s.reverse_compute_at(last, grid.back());
    Block init = c_.s.decompose_reduction(block_, parts);
    c_.s.vectorize(pieces[1]);
    c_.s.vectorize(c_.s.loops(init).back());
    c_.s.vectorize(c_.s.loops(last).back());
    gpu_bind_grid(c_, grid);
  }

  RuleContext& c_;
  const Block& block_;
  BlockFacts facts_;
};

}  // namespace

Block gpu_split_terms(RuleContext& c, const Block& block) { return TermSplitter(c, block).run(); }

}  // namespace tilewright
