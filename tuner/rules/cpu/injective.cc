// Inlining, and schedules of injective blocks.
#include <algorithm>
#include <map>
#include <numeric>

#include "base/ceil_div.h"
#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/rules.h"

namespace tilewright {

namespace {

bool feeds_contraction(RuleContext& c, const Block& block) {
  for (const Block& consumer : c.s.consumers(block)) {
    if (analyze(c.s, consumer).role == BlockRole::Contraction) return true;
  }
  return false;
}

// Iterators whose few values, or remainders, the function compares with constants one by one: each has a value
// of its own, as the rows of a small matrix have. The numbers of these values, by iterator.
std::map<size_t, int64_t> told_apart(RuleContext& c, const Block& b) {
  const BlockNode& block = c.s.node(b);
  constexpr int64_t kMost = 8;
  std::map<size_t, int64_t> found;
  const std::vector<int64_t> periods = zero_periods(block);
  const bool stuffed = std::ranges::any_of(periods, [](int64_t p) { return p > 1; });
  if (stuffed || c.s.loops(b).size() != block.iters.size()) return found;
  for_each_expr(store_of(block).value, [&](const Expr& e) {
    auto* test = e.as<BinaryNode>();
    if (!test || test->op != BinaryOp::EQ || !as_int(test->b)) return;
    auto* rest = test->a.as<BinaryNode>();
    const bool modulo = rest && rest->op == BinaryOp::FloorMod && as_int(rest->b);
    const Expr& index = modulo ? rest->a : test->a;
    for (size_t i = 0; i + 1 < block.iters.size(); ++i) {
      if (!index.same_as(block.iters[i].var)) continue;
      const int64_t values = modulo ? *as_int(rest->b) : largest_extent(c.s, block.iters[i].extent);
      if (values <= kMost) found[i] = values;
    }
  });
  return found;
}

// Unrolls these values within the loop over vectors, so that conditions are known and the values share what
// they read.
void schedule_values(RuleContext& c, const Block& block, const std::map<size_t, int64_t>& values) {
  const std::vector<Loop> loops = c.s.loops(block);
  std::vector<Loop> outer, inner;
  for (size_t i = 0; i + 1 < loops.size(); ++i) {
    const auto count = values.find(i);
    if (count == values.end()) {
      outer.push_back(loops[i]);
    } else if (is_int(c.s.node(loops[i]).extent, count->second)) {
      inner.push_back(loops[i]);
    } else {
      const std::vector<Loop> parts = c.s.split(loops[i], {-1, count->second});
      outer.push_back(parts[0]);
      inner.push_back(parts[1]);
    }
  }
  const int64_t lanes = lanes_of_results(c.s, block, c.input.target);
  const std::vector<Loop> vectors = c.s.split(loops.back(), {-1, lanes});
  std::vector<Loop> order = outer;
  order.push_back(vectors[0]);
  order.insert(order.end(), inner.begin(), inner.end());
  order.push_back(vectors[1]);
  c.s.reorder(order);
  for (const Loop& loop : inner) c.s.unroll(loop);
  c.s.vectorize(vectors[1]);
  parallel_over(c, outer.empty() ? std::vector<Loop>{vectors[0]} : outer);
}

// The iterator along which an operand's elements are neighbours, where those along the innermost one are not, as in a
// transposed copy: a vector takes one element from each of as many lines of the cache. Nothing for loops that are too
// short, or not those of the iterators.
struct CrossedLines {
  size_t along;
  int64_t elements;  // of a line
};
std::optional<CrossedLines> crossed_lines(RuleContext& c, const Block& b) {
  constexpr int64_t kLong = 8, kLine = 64 * 8;  // iterations, bits
  const BlockNode& block = c.s.node(b);
  const size_t inner = block.iters.size() - 1;
  const auto is_long = [&](size_t i) {
    return largest_extent(c.s, block.iters[i].extent) >= kLong;
  };
  if (c.s.loops(b).size() != block.iters.size() || inner == 0 || !is_long(inner)) return {};
  std::optional<CrossedLines> found;
  for_each_expr(store_of(block).value, [&](const Expr& e) {
    auto* load = e.as<LoadNode>();
    if (load == nullptr || found || !uses_iterator(load->indices, block.iters[inner])) return;
    if (moves_a_window(load->indices, block.iters[inner])) return;
    for (size_t i = 0; i < inner; ++i) {
      if (!is_long(i) || !moves_a_window(load->indices, block.iters[i])) continue;
      found = CrossedLines{i, kLine / std::max(8, bits_of(load->type.elem))};
    }
  });
  return found;
}

// The iterations that use up a line of the cache: so many, or the most that divide the loop without a rest.
int64_t iterations_of_line(int64_t extent, int64_t line) {
  for (int64_t count = line; count > line / 2; --count) {
    if (extent % count == 0) return count;
  }
  return line;
}

// Elements of the same lines are used one after the other, before other lines take their place: for each vector, the
// loop along the lines runs over one line.
void schedule_lines(RuleContext& c, const Block& block, const CrossedLines& read) {
  std::vector<Loop> outer = c.s.loops(block);
  const int64_t lanes = lanes_of_results(c.s, block, c.input.target);
  const auto extent = as_int(c.s.node(outer[read.along]).extent);
  const int64_t count = extent ? iterations_of_line(*extent, read.elements) : read.elements;
  const std::vector<Loop> lines = c.s.split(outer[read.along], {-1, count});
  outer[read.along] = lines[0];
  Loop vector = outer.back();
  outer.pop_back();
  const auto length = as_int(c.s.node(vector).extent);
  if (!length || *length > lanes) {
    const std::vector<Loop> vectors = c.s.split(vector, {-1, lanes});
    outer.push_back(vectors[0]);
    vector = vectors[1];
  }
  std::vector<Loop> order = outer;
  order.insert(order.end(), {lines[1], vector});
  c.s.reorder(order);
  c.s.vectorize(vector);
  parallel_over(c, outer);
}

}  // namespace

void inline_stages(RuleContext& c) {
  for (const Block& block : c.s.blocks()) {
    const BlockNode& n = c.s.node(block);
    if (analyze(c.s, block).role != BlockRole::Injective) continue;
    if (is_output(c.s, store_of(n).buffer->name) || feeds_contraction(c, block)) continue;
    size_t uses = c.s.consumers(block).size();
    bool free = uses == 1 || !is_expensive(n);
    // An expensive value with several readers may be worth keeping.
    if (free ||
        c.t.choose(block.name + ".inline", std::vector<std::string>{"no", "yes"}) == "yes") {
      c.s.compute_inline(block);
    }
  }
}

Loop parallel_over(RuleContext& c, const std::vector<Loop>& loops) {
  Loop outer = loops.size() > 1 ? c.s.fuse(loops) : loops[0];
  c.s.parallel(outer);
  return outer;
}

void vectorize_innermost(RuleContext& c, const Block& block, int64_t vectors) {
  std::vector<Loop> loops = c.s.loops(block);
  if (loops.empty()) return;
  const ForNode& inner = c.s.node(loops.back());
  const int64_t extent = largest_extent(c.s, inner.extent);
  if (extent < 2 || inner.for_kind != ForKind::Serial) return;
  const int64_t width =
      lanes_of_results(c.s, block, c.input.target) * std::max<int64_t>(1, vectors);
  if (as_int(inner.extent) && extent <= width) {
    c.s.vectorize(loops.back());
    return;
  }
  std::vector<Loop> parts = c.s.split(loops.back(), {-1, width});
  c.s.vectorize(parts[1]);
}

void schedule_injective(RuleContext& c, const Block& block) {
  std::vector<Loop> loops = c.s.loops(block);
  if (loops.empty()) return;
  const auto values = told_apart(c, block);
  if (!values.empty()) {
    const std::vector<std::string> ways = {"unroll", "loop"};
    if (c.t.choose(block.name + ".values", ways) == "unroll")
      return schedule_values(c, block, values);
  }
  const bool is_result = is_output(c.s, c.s.output(block)->name);
  if (const auto lines = is_result ? crossed_lines(c, block) : std::nullopt) {
    const std::vector<std::string> ways = {"lines", "rows"};
    if (c.t.choose(block.name + ".order", ways) == "lines") return schedule_lines(c, block, *lines);
  }
  int64_t vectors = c.t.choose(block.name + ".vectors", std::vector<int64_t>{1, 2, 4});
  if (loops.size() == 1) {
    auto constant = as_int(c.s.node(loops[0]).extent);
    const int64_t extent = largest_extent(c.s, c.s.node(loops[0]).extent);
    if (extent < 256) return vectorize_innermost(c, block, vectors);
    int64_t pieces = c.t.choose(block.name + ".pieces", std::vector<int64_t>{16, 4, 64});
    // With a dynamic axis, pieces are as long as those of the maximum; a shorter axis has fewer.
    std::vector<int64_t> factors = {pieces, -1};
    if (!constant) factors = {-1, ceil_div(extent, pieces)};
    std::vector<Loop> parts = c.s.split(loops[0], factors);
    c.s.parallel(parts[0]);
    return vectorize_innermost(c, block, vectors);
  }
  vectorize_innermost(c, block, vectors);
  parallel_over(c, {loops.begin(), loops.end() - 1});
}

void schedule_copy(RuleContext& c, const Block& copy, const IndexMap& layout) {
  const Buffer made = c.s.output(copy);
  std::vector<Loop> loops = c.s.loops(copy);
  if (loops.size() < 2 || !told_apart(c, copy).empty()) return schedule_injective(c, copy);
  std::vector<int64_t> shape;
  for (const Expr& size : made->shape) shape.push_back(largest_extent(c.s, size));
  int64_t run = shape.back();
  for (const auto& output : layout.digits(shape)) {
    for (const IndexMap::Digit& digit : output) {
      const bool along = digit.input == made->rank() - 1 && digit.unit == 1;
      if (along) run = std::min(run, digit.extent);
    }
  }
  const int64_t lanes = c.input.target.lanes(bits_of(made->elem));
  if (run < 2 || run >= shape.back() || run % lanes == 0) {
    return schedule_injective(c, copy);
  }
  c.s.split(loops.back(), {-1, run});
  const int64_t vectors = c.t.choose(copy.name + ".vectors", std::vector<int64_t>{1, 2, 4});
  vectorize_innermost(c, copy, vectors);
  loops.pop_back();
  parallel_over(c, loops);
}

void schedule_groups(RuleContext& c, const Block& block) {
  std::vector<Loop> loops = c.s.loops(block);
  const Loop along = loops.back();
  loops.pop_back();
  parallel_over(c, loops);
  const int bits = bits_of(c.s.output(block)->elem);
  const int64_t length = *as_int(c.s.node(along).extent);
  const int64_t lanes = std::gcd<int64_t>(length, c.input.target.lanes(bits));
  if (lanes > 1) c.s.vectorize(c.s.split(along, {-1, lanes})[1]);
}

}  // namespace tilewright
