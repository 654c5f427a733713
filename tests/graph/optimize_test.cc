// Random graphs keep their meaning through all passes.
#include "graph/optimize.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

#include "tests/graph/graphs.h"

namespace tilewright::graph {
namespace {

// Writes a graph of moves, functions, products and softmaxes over small arrays.
class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed) {}

  std::string text() {
    for (int i = 0; i < 2; ++i) {
      const Shape shape = {pick({1, 2}), pick({2, 4}), pick({4, 8}), pick({2, 4})};
      lines_ += fmt::format("input \"v{}\": f32[{}]\n", values_.size(), fmt::join(shape, ", "));
      values_.push_back(shape);
    }
    for (int i = 0; i < 10; ++i) add_node();
    lines_ += fmt::format("output \"v{}\"\n", values_.size() - 1);
    if (below(3) == 0) lines_ += fmt::format("output \"v{}\"\n", 2 + below(values_.size() - 3));
    return lines_;
  }

 private:
  size_t below(size_t count) { return random_() % count; }
  int64_t pick(const std::vector<int64_t>& of) { return of[below(of.size())]; }
  // Mostly one of the last values, so that chains form.
  size_t some_value() {
    const size_t near = std::min<size_t>(values_.size(), 3);
    return below(4) == 0 ? below(values_.size()) : values_.size() - 1 - below(near);
  }

  static std::string index(size_t d) { return fmt::format("i{}", d); }

  void add(const Shape& shape, const std::string& value, const std::string& more,
           const std::vector<std::pair<std::string, size_t>>& operands,
           const std::string& assignment = "=") {
    std::string left, dims, names;
    for (size_t d = 0; d < shape.size(); ++d) {
      left += (d == 0 ? "" : ", ") + index(d);
      dims += fmt::format(",dims.i{}={}", d, shape[d]);
    }
    for (const auto& [name, at] : operands) {
      dims += fmt::format(",shapes.{}=[{}]", name, fmt::join(values_[at], ","));
      names += fmt::format("{}{}=\"v{}\"", names.empty() ? "" : ", ", name, at);
    }
    lines_ += fmt::format("\"v{}\": f32[{}] = \"expr:expr=\\\"Y[{}] {} {}\\\"{}{}\" ({})\n",
                          values_.size(), fmt::join(shape, ", "), left, assignment, value, dims,
                          more, names);
    values_.push_back(shape);
  }

  std::string read(const std::string& name, const std::vector<std::string>& at) const {
    return fmt::format("{}[{}]", name, fmt::join(at, ", "));
  }

  std::vector<std::string> plain(const Shape& shape) const {
    std::vector<std::string> at;
    for (size_t d = 0; d < shape.size(); ++d) at.push_back(index(d));
    return at;
  }

  void add_node() {
    const size_t x = some_value();
    switch (below(8)) {
      case 0: return add_view(x);
      case 1:
      case 2: return add_transposition(x);
      case 3: return add_slice(x);
      case 4: return add_repetition(x);
      case 5: return add_product(x);
      case 6: return add_function(x);
      default: return add_softmax(x);
    }
  }

  void add_view(size_t x) {
    Shape shape = values_[x];
    const size_t d = below(shape.size());
    if (shape.size() > 2 && below(2) == 0) {  // two axes become one
      const size_t other = d + 1 < shape.size() ? d : d - 1;
      shape[other] *= shape[other + 1];
      shape.erase(shape.begin() + static_cast<int64_t>(other) + 1);
    } else if (shape[d] % 2 == 0 && shape.size() < 5) {  // one becomes two
      shape[d] /= 2;
      shape.insert(shape.begin() + static_cast<int64_t>(d) + static_cast<int64_t>(below(2)), 2);
    }
    lines_ +=
        fmt::format("\"v{}\": f32[{}] = view \"v{}\"\n", values_.size(), fmt::join(shape, ", "), x);
    values_.push_back(shape);
  }

  void add_transposition(size_t x) {
    const Shape& from = values_[x];
    std::vector<size_t> order;
    for (size_t d = 0; d < from.size(); ++d) order.push_back(d);
    std::shuffle(order.begin(), order.end(), random_);
    Shape shape;
    std::vector<std::string> at(from.size());
    for (size_t d = 0; d < order.size(); ++d) {
      shape.push_back(from[order[d]]);
      at[order[d]] = index(d);
    }
    static const std::vector<std::string> factors = {" * 0.5", " * (-0.25)", " / 3"};
    add(shape, read("X", at) + (below(4) == 0 ? factors[below(factors.size())] : ""), "",
        {{"X", x}});
  }

  void add_slice(size_t x) {
    Shape shape = values_[x];
    const size_t d = below(shape.size());
    std::vector<std::string> at = plain(shape);
    const int64_t size = shape[d];
    if (below(3) == 0) {
      at[d] = fmt::format("{} - {}", size - 1, at[d]);
    } else {
      shape[d] = std::max<int64_t>(1, size / 2);
      at[d] = fmt::format("{} + {}", at[d], size - shape[d]);
    }
    add(shape, (below(3) == 0 ? "-" : "") + read("X", at), "", {{"X", x}});
  }

  void add_repetition(size_t x) {
    Shape shape = values_[x];
    if (shape.size() > 4 || element_count(shape).value_or(0) > 256) return add_function(x);
    const size_t d = below(shape.size());
    std::vector<std::string> at;
    for (size_t axis = 0; axis <= shape.size(); ++axis) {
      if (axis != d) at.push_back(index(axis));
    }
    shape.insert(shape.begin() + static_cast<int64_t>(d), 2);
    add(shape, read("X", at), "", {{"X", x}});
  }

  void add_function(size_t x) {
    const Shape shape = values_[x];
    const auto same = std::find(values_.begin(), values_.end(), shape);
    const auto z = static_cast<size_t>(same - values_.begin());
    const std::string own = read("X", plain(shape));
    if (z == x || below(2) == 0) {
      add(shape, below(2) == 0 ? fmt::format("tanh({})", own) : own + " * 0.5 + 1", "", {{"X", x}});
    } else {
      add(shape, own + " + " + read("Z", plain(shape)), "", {{"X", x}, {"Z", z}});
    }
  }

  // The product of two transposed values with a common last axis, over all of their other axes but the
  // first ones, which are the same.
  void add_product(size_t x) {
    const Shape a = values_[x];
    std::vector<size_t> fitting;
    for (size_t v = 0; v < values_.size(); ++v) {
      const Shape& b = values_[v];
      const bool fits = b.size() >= 2 && a.size() >= 2 && b.size() == a.size() &&
                        b.back() == a.back() && b[0] == a[0];
      if (fits) fitting.push_back(v);
    }
    if (fitting.empty() || a.size() < 3 || a.size() > 4) return add_softmax(x);
    const size_t z = fitting[below(fitting.size())];
    const Shape& b = values_[z];
    Shape shape = {a[0]};
    std::vector<std::string> left = {"i0"}, right = {"i0"};
    for (size_t d = 1; d + 1 < a.size(); ++d) {
      left.push_back(index(shape.size()));
      shape.push_back(a[d]);
    }
    for (size_t d = 1; d + 1 < b.size(); ++d) {
      right.push_back(index(shape.size()));
      shape.push_back(b[d]);
    }
    if (element_count(shape).value_or(0) > 512) return add_softmax(x);
    left.emplace_back("r");
    right.emplace_back("r");
    add(shape, fmt::format("{} * {}", read("X", left), read("Z", right)),
        fmt::format(",dims.r={}", a.back()), {{"X", x}, {"Z", z}}, "+=");
  }

  void add_softmax(size_t x) {
    const Shape shape = values_[x];
    const int64_t n = shape.back(), m = element_count(shape).value_or(0) / n;
    lines_ += fmt::format("\"v{}\": f32[{}] = \"softmax:m={},n={}\" (X=\"v{}\")\n", values_.size(),
                          fmt::join(shape, ", "), m, n, x);
    values_.push_back(shape);
  }

  std::mt19937 random_;
  std::vector<Shape> values_;
  std::string lines_;
};

unsigned long number_of(const char* variable, unsigned long otherwise) {
  const char* given = std::getenv(variable);
  return given == nullptr ? otherwise : std::strtoul(given, nullptr, 10);
}

TEST(GraphOptimize, RandomGraphsKeepTheirMeaning) {
  const unsigned long first = number_of("TILEWRIGHT_FUZZ_SEED", 1),
                      count = number_of("TILEWRIGHT_FUZZ_CASES", 300);
  size_t gone = 0;
  for (unsigned long seed = first; seed < first + count; ++seed) {
    const std::string text = RandomGraph(static_cast<unsigned>(seed)).text();
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, text));
    const Graph before = parse_graph(text);
    Graph after = before;
    optimize(&after);
    gone += before.nodes.size() - std::min(before.nodes.size(), after.nodes.size());
    expect_near(before, after);
    EXPECT_EQ(to_string(parse_graph(to_string(after))), to_string(after));
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(gone, count) << "too little is optimized";
}

}  // namespace
}  // namespace tilewright::graph
