#include "graph/winograd.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <optional>

#include "base/ceil_div.h"
#include "graph/interpret.h"
#include "graph/statements.h"
#include "models/onnx/extent.h"

namespace tilewright::graph {
namespace {

using ops::Syntax;
using Matrix = std::vector<std::vector<double>>;
using Parts = std::vector<std::vector<size_t>>;

constexpr int64_t kWindow = 3;

// Estimates, in nanoseconds. Only their proportions count.
constexpr double kMultiplyAdd = 0.018;  // a multiply-add of a product
constexpr double kMovedByte = 0.04;     // a byte that one node writes and the next one reads
constexpr double kReadWeight = 0.08;    // a byte of a weight, from memory
constexpr double kWorthIt = 0.85;       // of the time of the direct sum

// Y = output ((weight g weight^T) * (input d input^T)) output^T for a tile d and a window g.
struct Transform {
  int64_t outputs;  // of a tile, along each axis
  Matrix input, weight, output;
  // The columns of `input` and `output` that rows have in common, up to a factor, which has the sign of the
  // last one.
  Parts input_parts, output_parts;

  int64_t inputs() const { return outputs + kWindow - 1; }
  int64_t products() const { return inputs() * inputs(); }
};

const std::vector<Transform>& transforms() {
  static const std::vector<Transform> all = {
      {2,
       {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}},
       {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}},
       {{1, 1, 1, 0}, {0, 1, -1, -1}},
       {{0}, {1}, {2}, {3}},
       {{0}, {1}, {2}, {3}}},
      {4,
       {{4, 0, -5, 0, 1, 0},
        {0, -4, -4, 1, 1, 0},
        {0, 4, -4, -1, 1, 0},
        {0, -2, -1, 2, 1, 0},
        {0, 2, -1, -2, 1, 0},
        {0, 4, 0, -5, 0, 1}},
       {{1.0 / 4, 0, 0},
        {-1.0 / 6, -1.0 / 6, -1.0 / 6},
        {-1.0 / 6, 1.0 / 6, -1.0 / 6},
        {1.0 / 24, 1.0 / 12, 1.0 / 6},
        {1.0 / 24, -1.0 / 12, 1.0 / 6},
        {0, 0, 1}},
       {{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}},
       {{0, 2, 4}, {1, 3, 5}},
       {{0}, {2, 1}, {4, 3}, {5}}}};
  return all;
}

// A convolution over [n, h, w, c] as a text: perhaps a stage that pads, the sum, and its epilogue.
struct Convolution {
  Text text;
  size_t sum = 0;     // the stage
  size_t weight = 0;  // the value [3, 3, ci, co]
  Shape made;         // [n, h, w, co]
  int64_t channels = 0;

  const Stage& stage() const { return text.stages[sum]; }
  bool pads() const { return sum == 1; }
  // The tensor of which the sum reads windows.
  const Syntax& map() const { return stage().statement.value.args[0]; }
  // Tiles along h and w.
  int64_t rows(const Transform& t) const { return ceil_div(made[1], t.outputs); }
  int64_t columns(const Transform& t) const { return ceil_div(made[2], t.outputs); }
  // The map with padding up to whole tiles.
  Shape padded(const Transform& t) const {
    return {made[0], rows(t) * t.outputs + 2, columns(t) * t.outputs + 2, channels};
  }
};

// The index that is added to the index of this name; "" for anything else.
std::string added_to(const std::string& name, const Syntax& s) {
  const bool sum = s.kind == Syntax::Kind::Binary && s.text == "+" && is_name(s.args[0], name) &&
                   s.args[1].kind == Syntax::Kind::Name;
  return sum ? s.args[1].text : "";
}

// The channels of the map, where the stage sums up products of windows of a map, with its channels last, and a
// weight.
std::optional<int64_t> summed_channels(const Stage& sum) {
  const Syntax& value = sum.statement.value;
  const bool sums = sum.statement.assignment == "+=" && sum.indices.size() == 7 &&
                    sum.statement.indices.size() == 4 && value.kind == Syntax::Kind::Binary &&
                    value.text == "*" && is_read(value.args[0]) && is_read(value.args[1]);
  if (!sums) return std::nullopt;
  const std::vector<Syntax>&map = value.args[0].args, &weight = value.args[1].args;
  if (map.size() != 4 || weight.size() != 4) return std::nullopt;
  const auto name = [&](size_t i) { return sum.indices[i].first; };
  if (!is_name(map[0], name(0)) || !is_name(weight[3], name(3))) return std::nullopt;
  const std::vector<std::string> reduced = {added_to(name(1), map[1]), added_to(name(2), map[2]),
                                            map[3].text};
  std::vector<int64_t> sizes;
  for (size_t d = 0; d < reduced.size(); ++d) {
    const auto axis = std::find_if(sum.indices.begin() + 4, sum.indices.end(),
                                   [&](const auto& index) { return index.first == reduced[d]; });
    if (axis == sum.indices.end() || !is_name(weight[d], reduced[d])) return std::nullopt;
    sizes.push_back(axis->second);
  }
  if (sizes[0] != kWindow || sizes[1] != kWindow || !is_name(map[3], reduced[2])) {
    return std::nullopt;
  }
  return sizes[2];
}

std::optional<Convolution> convolution_of(const Graph& graph, const Node& node) {
  auto text = text_of(node);
  if (!text) return std::nullopt;
  const auto sum = std::ranges::find_if_not(text->stages, &Stage::is_function);
  if (sum == text->stages.end() || sum - text->stages.begin() > 1) return std::nullopt;
  if (!std::all_of(sum + 1, text->stages.end(), [](const Stage& s) { return s.is_function(); })) {
    return std::nullopt;
  }
  Convolution c;
  c.sum = static_cast<size_t>(sum - text->stages.begin());
  const auto channels = summed_channels(*sum);
  if (!channels) return std::nullopt;
  c.made = sizes_of(sum->axes());
  if (onnx::has_stand_in(c.made[1]) || onnx::has_stand_in(c.made[2]))
    return std::nullopt;  // no tiles
  c.channels = *channels;
  c.text = std::move(*text);
  const TextInput* weight = input_of(&c.text, c.stage().statement.value.args[1].text);
  const bool padded = c.pads() && c.map().text == c.text.stages[0].statement.target;
  if (weight == nullptr || (c.pads() && !padded)) return std::nullopt;
  const Value& value = graph.values[weight->value];
  const bool is_constant = value.constant && value.data && value.elem == ElemType::f32;
  // The epilogue reads neither the map nor the weight.
  const bool once = reads_of(c.text, c.map().text) == 1 && reads_of(c.text, weight->name) == 1;
  if (!is_constant || !once || weight->shape != value.shape) return std::nullopt;
  c.weight = weight->value;
  return c;
}

double product(const Shape& sizes) {
  double result = 1;
  for (int64_t size : sizes) result *= static_cast<double>(size);
  return result;
}

// Nanoseconds of products of this many positions, and of so many of them beside each other.
double products_cost(const Convolution& c, int64_t products, int64_t positions) {
  const double weights = product({products, c.channels, c.made[3]});
  return std::max(weights * static_cast<double>(positions) * kMultiplyAdd,
                  weights * sizeof(float) * kReadWeight);
}

double winograd_cost(const Convolution& c, const Transform& t) {
  const int64_t tiles = c.made[0] * c.rows(t) * c.columns(t);
  const double moved =
      product({t.products(), tiles, c.channels + c.made[3]}) + product(c.padded(t));
  return products_cost(c, t.products(), tiles) + moved * sizeof(float) * kMovedByte;
}

// The transform that saves time; null where none does.
const Transform* best_transform(const Convolution& c) {
  const Transform* best = nullptr;
  double least = kWorthIt * products_cost(c, kWindow * kWindow, c.made[0] * c.made[1] * c.made[2]);
  for (const Transform& t : transforms()) {
    const double cost = winograd_cost(c, t);
    if (cost >= least) continue;
    least = cost;
    best = &t;
  }
  return best;
}

// The sum of these terms with their factors, one of them positive.
Syntax sum_of(std::vector<std::pair<int64_t, Syntax>> terms) {
  std::stable_partition(terms.begin(), terms.end(),
                        [](const auto& term) { return term.first > 0; });
  std::optional<Syntax> sum;
  for (auto& [factor, term] : terms) {
    const int64_t size = std::abs(factor);
    if (size != 1) term = binary_syntax("*", number_syntax(size), std::move(term));
    sum = sum ? binary_syntax(factor > 0 ? "+" : "-", std::move(*sum), std::move(term))
              : std::move(term);
  }
  return *sum;
}

// The sum of elements, each with its coefficient, by the parts of a transform: rows whose parts differ in a
// factor have the same text there, which compilers compute once.
Syntax combination(const std::vector<double>& coefficients, const Parts& parts,
                   const std::function<Syntax(int64_t)>& element) {
  std::vector<std::pair<int64_t, Syntax>> terms;
  for (const std::vector<size_t>& part : parts) {
    int64_t factor = 0;
    for (size_t i : part) {
      const auto own = static_cast<int64_t>(coefficients[i]);
      if (own != 0) factor = std::gcd(factor, own) * (own < 0 ? -1 : 1);
    }
    if (factor == 0) continue;
    std::vector<std::pair<int64_t, Syntax>> own;
    for (size_t i : part) {
      const auto coefficient = static_cast<int64_t>(coefficients[i]) / factor;
      if (coefficient != 0) own.emplace_back(coefficient, element(static_cast<int64_t>(i)));
    }
    terms.emplace_back(factor, sum_of(std::move(own)));
  }
  return sum_of(std::move(terms));
}

// The combination of the row that `row` says.
Syntax chosen_row(const Matrix& matrix, const Parts& parts, const Syntax& row,
                  const std::function<Syntax(int64_t)>& element) {
  Syntax value = combination(matrix.back(), parts, element);
  for (size_t r = matrix.size() - 1; r-- > 0;) {
    value = select_syntax("==", row, number_syntax(static_cast<int64_t>(r)),
                          combination(matrix[r], parts, element), std::move(value));
  }
  return value;
}

class Winograd {
 public:
  explicit Winograd(Graph* graph) : graph_(*graph) {}

  int run() {
    const std::vector<Node> before = std::move(graph_.nodes);
    graph_.nodes.clear();
    int count = 0;
    for (const Node& node : before) {
      const auto c = convolution_of(graph_, node);
      const Transform* t = c ? best_transform(*c) : nullptr;
      if (t != nullptr && add(*c, *t, node)) {
        ++count;
      } else {
        graph_.nodes.push_back(node);
      }
    }
    if (count > 0) drop_unused(&graph_);
    return count;
  }

 private:
  // Whether all nodes could be said; the graph has none of them where not.
  bool add(const Convolution& c, const Transform& t, const Node& node) {
    const size_t nodes = graph_.nodes.size(), values = graph_.values.size();
    name_ = graph_.values[node.output].name;
    label_ = node.label;
    if (const auto map = add_padded(c, t)) {
      const auto tiles = add_tiles(c, t, *map);
      const auto products = tiles ? add_products(c, t, *tiles) : std::nullopt;
      if (products && add_result(c, t, *products, node.output)) return true;
    }
    graph_.nodes.resize(nodes);
    graph_.values.resize(values);
    std::erase_if(weights_, [&](const auto& w) { return w.second >= values; });
    return false;
  }

  std::optional<size_t> push(Text text, const std::string& what) {
    const size_t output =
        graph_.add({.name = name_ + "/" + what, .shape = sizes_of(text.stages.back().axes())});
    return push(std::move(text), what, output);
  }

  std::optional<size_t> push(Text text, const std::string& what, size_t output) {
    std::erase_if(text.inputs, [&](const TextInput& i) { return reads_of(text, i.name) == 0; });
    auto node = node_of(std::move(text), label_ + "/" + what, output);
    if (!node) return std::nullopt;
    graph_.nodes.push_back(std::move(*node));
    return output;
  }

  // The map with zeros around it, up to whole tiles.
  std::optional<size_t> add_padded(const Convolution& c, const Transform& t) {
    const Shape padded = c.padded(t);
    Text text{{}, c.text.inputs};
    if (c.pads()) {
      text.stages = {c.text.stages[0]};
      for (size_t d = 1; d < 3; ++d) text.stages[0].indices[d].second = padded[d];
      return push(std::move(text), "padded");
    }
    const TextInput& input = *input_of(&text, c.map().text);
    if (input.shape == padded) return input.value;
    const Indices axes = indices_over(padded);
    Syntax value = element_at(input.name, axes);
    for (size_t d = 1; d < 3; ++d) {
      value = select_syntax("<", name_syntax(axes[d].first), number_syntax(input.shape[d]),
                            std::move(value), number_syntax(0));
    }
    text.stages = {stage_over(axes, {}, "Y", "=", std::move(value))};
    return push(std::move(text), "padded");
  }

  // [a, b, n, h, w, ci]: element (a, b) of each transformed tile.
  std::optional<size_t> add_tiles(const Convolution& c, const Transform& t, size_t map) {
    const int64_t m = t.outputs, edge = t.inputs();
    const Shape padded = c.padded(t);
    const auto place = [m](const std::string& tile, int64_t offset) {
      Syntax first = binary_syntax("*", name_syntax(tile), number_syntax(m));
      return offset == 0 ? first : binary_syntax("+", std::move(first), number_syntax(offset));
    };
    const Indices half = {
        {"a", edge}, {"n", c.made[0]}, {"h", c.rows(t)}, {"x", padded[2]}, {"c", c.channels}};
    const Syntax n = name_syntax("n"), channel = name_syntax("c");
    Text text{{}, {{"X", map, padded, ElemType::f32, false}}};
    text.stages.push_back(stage_over(
        half, {}, "T", "=", chosen_row(t.input, t.input_parts, name_syntax("a"), [&](int64_t i) {
          return read_syntax("X", {n, place("h", i), name_syntax("x"), channel});
        })));
    const Indices axes = {{"a", edge},      {"b", edge},         {"n", c.made[0]},
                          {"h", c.rows(t)}, {"w", c.columns(t)}, {"c", c.channels}};
    text.stages.push_back(stage_over(
        axes, {}, "Y", "=", chosen_row(t.input, t.input_parts, name_syntax("b"), [&](int64_t i) {
          return read_syntax("T", {name_syntax("a"), n, name_syntax("h"), place("w", i), channel});
        })));
    return push(std::move(text), "tiles");
  }

  // [p, tile, co]: the product of each element of the tiles with that of the weight.
  std::optional<size_t> add_products(const Convolution& c, const Transform& t, size_t tiles) {
    const int64_t count = c.made[0] * c.rows(t) * c.columns(t), p = t.products();
    const Indices axes = {{"p", p}, {"t", count}, {"o", c.made[3]}}, reduced = {{"c", c.channels}};
    Text text{{},
              {{"X", tiles, {p, count, c.channels}, ElemType::f32, false},
               {"W", weight(c, t), {p, c.channels, c.made[3]}, ElemType::f32, true}}};
    text.stages.push_back(
        stage_over(axes, reduced, "Y", "+=",
                   binary_syntax("*", element_at("X", {axes[0], axes[1], reduced[0]}),
                                 element_at("W", {axes[0], reduced[0], axes[2]}))));
    return push(std::move(text), "products");
  }

  // The output, with the epilogue.
  bool add_result(const Convolution& c, const Transform& t, size_t products, size_t output) {
    const int64_t m = t.outputs, edge = t.inputs();
    Text text{{c.text.stages.begin() + static_cast<int64_t>(c.sum), c.text.stages.end()},
              c.text.inputs};
    prefix(&text, "own_");
    const Shape shape = {edge, edge, c.made[0], c.rows(t), c.columns(t), c.made[3]};
    text.inputs.push_back({"X", products, shape, ElemType::f32, false});
    const auto part = [m](const char* op, const std::string& index) {
      return binary_syntax(op, name_syntax(index), number_syntax(m));
    };
    const Syntax n = name_syntax("n"), channel = name_syntax("o");
    const Indices half = {
        {"n", c.made[0]}, {"y", c.made[1]}, {"b", edge}, {"w", c.columns(t)}, {"o", c.made[3]}};
    Stage rows = stage_over(half, {}, "T", "=",
                            chosen_row(t.output, t.output_parts, part("%", "y"), [&](int64_t i) {
                              return read_syntax("X", {number_syntax(i), name_syntax("b"), n,
                                                       part("//", "y"), name_syntax("w"), channel});
                            }));
    const Indices axes = {{"n", c.made[0]}, {"y", c.made[1]}, {"x", c.made[2]}, {"o", c.made[3]}};
    Stage columns = stage_over(axes, {}, text.stages[0].statement.target, "=",
                               chosen_row(t.output, t.output_parts, part("%", "x"), [&](int64_t i) {
                                 return read_syntax("T", {n, name_syntax("y"), number_syntax(i),
                                                          part("//", "x"), channel});
                               }));
    text.stages[0] = std::move(columns);
    text.stages.insert(text.stages.begin(), std::move(rows));
    return push(std::move(text), "result", output).has_value();
  }

  // The constant [p, ci, co] of transformed windows.
  size_t weight(const Convolution& c, const Transform& t) {
    const std::pair key{c.weight, t.outputs};
    const auto found = weights_.find(key);
    if (found != weights_.end()) return found->second;
    const Value& from = graph_.values[c.weight];
    const int64_t each = from.shape[2] * from.shape[3];
    std::vector<float> in(static_cast<size_t>(from.count())),
        out(static_cast<size_t>(t.products() * each));
    std::memcpy(in.data(), from.data->data(), in.size() * sizeof(float));
    for (int64_t i = 0; i < each; ++i) transform_window(t, each, &in[i], &out[i]);
    Value made{.name = fmt::format("{}/winograd{}", from.name, t.outputs),
               .shape = {t.products(), from.shape[2], from.shape[3]},
               .constant = true};
    made.data = std::make_shared<const std::string>(reinterpret_cast<const char*>(out.data()),
                                                    out.size() * sizeof(float));
    return weights_[key] = graph_.add(std::move(made));
  }

  // The elements of a window stand `stride` apart, and so do those of its transform.
  static void transform_window(const Transform& t, int64_t stride, const float* in, float* out) {
    for (int64_t p = 0; p < t.products(); ++p) {
      const auto &left = t.weight[static_cast<size_t>(p / t.inputs())],
                 &right = t.weight[static_cast<size_t>(p % t.inputs())];
      double sum = 0;
      for (size_t k = 0; k < kWindow * kWindow; ++k) {
        sum += left[k / kWindow] * right[k % kWindow] * in[static_cast<int64_t>(k) * stride];
      }
      out[p * stride] = static_cast<float>(sum);
    }
  }

  Graph& graph_;
  std::string name_, label_;                                   // of the node that changes
  std::map<std::pair<size_t, int64_t>, size_t> weights_ = {};  // by value and outputs of a tile
};

}  // namespace

int use_winograd(Graph* graph) { return Winograd(graph).run(); }

}  // namespace tilewright::graph
