// Expressions of whole models: normalizations that no spec says, and products of many elements.
#include <fmt/format.h>

#include <algorithm>

#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"

namespace tilewright::onnx {
namespace {

// The elements of the input that are normalized together with one of the output: along these axes.
struct Group {
  std::string place, element;  // "i0, i2", "X0[i0, r0, i2]"
  std::string own;             // the place of the output's element; "0" where all are one group
  int64_t count = 1;
};

Group group_over(IndexExpr& e, const std::string& x, const Sizes& sizes,
                 const std::vector<bool>& over, const std::vector<std::string>& indices) {
  Group g;
  std::vector<std::string> place, through = indices;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (over[d]) {
      through[d] = e.reduced(sizes[d]);
      g.count *= sizes[d];
    } else {
      place.push_back(indices[d]);
    }
  }
  g.own = place.empty() ? "0" : fmt::format("{}", fmt::join(place, ", "));
  if (place.empty()) place.push_back(e.reduced(1));
  g.place = fmt::format("{}", fmt::join(place, ", "));
  g.element = e.at(x, through);
  return g;
}

std::vector<bool> from_axis(size_t rank, size_t axis) {
  std::vector<bool> over(rank, false);
  for (size_t d = axis; d < rank; ++d) over[d] = true;
  return over;
}

// Layer and RMS normalization with a calculated factor, or with their statistics as outputs.
Mapped express_layer_norm(const Mapping& m, const Node& node) {
  const bool rms = node.op != "LayerNormalization";
  const std::string& x = node.inputs.at(0);
  const Sizes sizes = sizes_of_value(m, x);
  const size_t axis = checked_axis(node.integer("axis", -1), sizes.size());
  const std::string eps = literal(node.real("epsilon", 1e-5));
  Mapped layers;
  for (size_t output = 0; output < node.outputs.size(); ++output) {
    if (node.outputs[output].empty()) continue;
    IndexExpr e(m, node, output);
    std::vector<std::string> indices = e.indices();
    const Group g = group_over(e, x, sizes, from_axis(sizes.size(), axis), indices);
    const auto mean_at = [&](const std::string& place) {
      return rms ? "0" : fmt::format("S[{}] / {}", place, g.count);
    };
    const std::string mean = mean_at(g.own);
    const std::string off = rms ? g.element : fmt::format("({} - {})", g.element, mean_at(g.place));
    const std::string sum = rms ? "" : fmt::format("S[{}] += {}; ", g.place, g.element);
    const std::string squares = fmt::format("{}V[{}] += {} * {}; ", sum, g.place, off, off);
    const std::string inverse = fmt::format("rsqrt(V[{}] / {} + {})", g.own, g.count, eps);
    std::string statements;
    if (output == 0) {
      std::string value = fmt::format("({} - {}) * {}", e.element(x), mean, inverse);
      if (node.has_input(1)) value += " * " + e.element(node.inputs[1]);
      if (node.has_input(2)) value += " + " + e.element(node.inputs[2]);
      statements = fmt::format("{}{} = {}", squares, e.left(), value);
    } else {
      const bool first = output == 1 && !rms;
      statements =
          fmt::format("{}{} = {}", first ? sum : squares, e.left(), first ? mean : inverse);
    }
    layers.push_back(e.finish(statements));
  }
  return layers;
}

Mapped express_mean_variance(const Mapping& m, const Node& node) {
  const std::string& x = node.inputs.at(0);
  const Sizes sizes = sizes_of_value(m, x);
  std::vector<bool> over(sizes.size(), false);
  for (int64_t a : node.integers("axes").value_or(std::vector<int64_t>{0, 2, 3})) {
    over[checked_axis(a, sizes.size())] = true;
  }
  IndexExpr e(m, node);
  const Group g = group_over(e, x, sizes, over, e.indices());
  return {e.finish(fmt::format(
      "S[{0}] += {1}; V[{0}] += ({1} - S[{0}] / {5}) * ({1} - S[{0}] / {5}); {3} = ({4} "
      "- S[{2}] / {5}) / (sqrt(V[{2}] / {5}) + 1e-9)",
      g.place, g.element, g.own, e.left(), e.element(x), g.count))};
}

// Groups of channels, with a factor and a shift for each channel.
Mapped express_group_norm(const Mapping& m, const Node& node) {
  const std::string& x = node.inputs.at(0);
  const Sizes sizes = sizes_of_value(m, x);
  const int64_t groups = node.integer("num_groups", 1);
  if (groups < 1 || sizes.size() < 2 || sizes[1] % groups != 0) {
    throw NotMapped(fmt::format("it has {} groups", groups));
  }
  const int64_t own = sizes[1] / groups;
  IndexExpr e(m, node);
  std::vector<std::string> through = {"i0"};
  const std::string g = e.reduced(groups);
  through.push_back(fmt::format("{} * {} + {}", g, own, e.reduced(own)));
  int64_t count = own;
  for (size_t d = 2; d < sizes.size(); ++d) {
    through.push_back(e.reduced(sizes[d]));
    count *= sizes[d];
  }
  const std::string element = e.at(x, through);
  // With a scale for each channel, or, in old models, for each group.
  const auto by_channel = [&](const std::string& value) {
    const bool whole = sizes_of_value(m, value).at(0) == sizes[1];
    return e.at(value, {whole ? "i1" : fmt::format("i1 // {}", own)});
  };
  const std::string of = fmt::format("[i0, i1 // {}]", own), by = fmt::format("[i0, {}]", g);
  return {e.finish(fmt::format(
      "S{0} += {1}; V{0} += ({1} - S{0} / {2}) * ({1} - S{0} / {2}); {3} = ({4} - S{5} / {2}) * "
      "rsqrt(V{5} / {2} + {6}) * {7} + {8}",
      by, element, count, e.left(), e.element(x), of, literal(node.real("epsilon", 1e-5)),
      by_channel(node.inputs.at(1)), by_channel(node.inputs.at(2))))};
}

Mapped express_lp_normalization(const Mapping& m, const Node& node) {
  const std::string& x = node.inputs.at(0);
  const Sizes sizes = sizes_of_value(m, x);
  const int64_t p = node.integer("p", 2);
  if (p != 1 && p != 2) throw NotMapped(fmt::format("its p is {}", p));
  std::vector<bool> over(sizes.size(), false);
  over[checked_axis(node.integer("axis", -1), sizes.size())] = true;
  IndexExpr e(m, node);
  const Group g = group_over(e, x, sizes, over, e.indices());
  const std::string term =
      p == 1 ? fmt::format("abs({})", g.element) : fmt::format("{0} * {0}", g.element);
  const std::string size = fmt::format("{}(S[{}])", p == 1 ? "" : "sqrt", g.own);
  return {e.finish(fmt::format("S[{}] += {}; {} = select(S[{}] == 0, 0, {} / {})", g.place, term,
                               e.left(), g.own, e.element(x), size))};
}

// One at the first of the largest elements.
Mapped express_hardmax(const Mapping& m, const Node& node) {
  const std::string& x = node.inputs.at(0);
  const Sizes sizes = sizes_of_value(m, x);
  const bool old = m.graph.opset(node) < 13;
  const size_t axis = checked_axis(node.integer("axis", old ? 1 : -1), sizes.size());
  if (old && axis + 1 != sizes.size()) throw NotMapped("its rows are several axes");
  std::vector<bool> over(sizes.size(), false);
  over[axis] = true;
  IndexExpr e(m, node);
  const Group g = group_over(e, x, sizes, over, e.indices());
  return {e.finish(fmt::format(
      "M[{0}] max= {1}; P[{0}] min= select({1} == M[{0}], r0, {2}); {3} = select({4} == P[{5}], "
      "1, 0)",
      g.place, g.element, sizes[axis], e.left(), e.indices()[axis], g.own))};
}

constexpr int64_t kMostFactors = 64;

Mapped express_running_product(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const auto given = known_numbers(m, node, "axis", 1);
  if (!given || given->size() != 1) throw NotMapped("its axis is not known");
  const size_t axis = checked_axis((*given)[0], e.sizes().size());
  const bool reverse = node.integer("reverse", 0) != 0, open = node.integer("exclusive", 0) != 0;
  if (e.sizes()[axis] > kMostFactors)
    throw NotMapped(fmt::format("it multiplies {} elements", e.sizes()[axis]));
  std::string text;
  for (int64_t i = 0; i < e.sizes()[axis]; ++i) {
    std::vector<std::string> at = e.indices();
    at[axis] = std::to_string(i);
    text += fmt::format("{}select({} {}{} {}, {}, 1)", i == 0 ? "" : " * ", e.indices()[axis],
                        reverse ? "<" : ">", open ? "" : "=", i, e.at(node.inputs.at(0), at));
  }
  return {e.finish(fmt::format("{} = {}", e.left(), text))};
}

Mapped express_product_of_all(const Mapping& m, const Node& node) {
  const std::string& x = node.inputs.at(0);
  const Sizes sizes = sizes_of_value(m, x);
  std::vector<bool> over(sizes.size(), true);
  if (const auto axes = known_numbers(m, node, "axes", 1); axes && !axes->empty()) {
    std::fill(over.begin(), over.end(), false);
    for (int64_t a : *axes) over[checked_axis(a, sizes.size())] = true;
  } else if (node.integer("noop_with_empty_axes", 0) != 0) {
    throw NotMapped("it reduces no axis");
  }
  const bool keep = node.integer("keepdims", 1) != 0;
  IndexExpr e(m, node);
  int64_t count = 1;
  for (size_t d = 0; d < sizes.size(); ++d) count *= over[d] ? sizes[d] : 1;
  if (count > kMostFactors) throw NotMapped(fmt::format("it multiplies {} elements", count));
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<std::string> at(sizes.size());
    int64_t rest = i;
    size_t next = 0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (over[d]) {
        at[d] = std::to_string(rest % sizes[d]);
        rest /= sizes[d];
        next += keep ? 1 : 0;
      } else {
        at[d] = e.indices().at(next++);
      }
    }
    text += (i == 0 ? "" : " * ") + e.at(x, at);
  }
  return {e.finish(fmt::format("{} = {}", e.left(), text))};
}

}  // namespace

const MapFns& whole_normalization_mappings() {
  static const MapFns kMappings = {{"LayerNormalization", express_layer_norm},
                                   {"RMSNormalization", express_layer_norm},
                                   {"SimplifiedLayerNormalization", express_layer_norm},
                                   {"MeanVarianceNormalization", express_mean_variance},
                                   {"GroupNormalization", express_group_norm},
                                   {"LpNormalization", express_lp_normalization},
                                   {"Hardmax", express_hardmax},
                                   {"CumProd", express_running_product},
                                   {"ReduceProd", express_product_of_all}};
  return kMappings;
}

}  // namespace tilewright::onnx
