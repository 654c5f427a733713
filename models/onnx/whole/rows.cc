// Expressions of whole models: reductions, normalizations, products with broadcasting.
#include <fmt/format.h>

#include <algorithm>

#include "models/onnx/step.h"
#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"

namespace tilewright::onnx {
namespace {

// The row through an element: the same indices with other ones along some axes.
struct Row {
  std::string place;    // "i0, i2": the axes that stay, "0" for none
  std::string through;  // "i0, r0, i2"
};

Row row_over(IndexExpr& e, const Sizes& sizes, const std::vector<size_t>& axes) {
  std::vector<std::string> through = e.indices(), place;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) {
      place.push_back(through[d]);
    } else {
      through[d] = e.reduced(sizes[d]);
    }
  }
  if (place.empty()) throw NotMapped("it normalizes all elements together");
  return {fmt::format("{}", fmt::join(place, ", ")), fmt::format("{}", fmt::join(through, ", "))};
}

// Softmax and its logarithm along any axes.
Mapped express_softmax(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const std::string& input = node.inputs.at(0);
  const Sizes sizes = sizes_of_value(m, input);
  const bool old = m.graph.opset(node) < 13;
  const size_t axis = checked_axis(node.integer("axis", old ? 1 : -1), sizes.size());
  std::vector<size_t> axes = {axis};
  for (size_t d = axis + 1; old && d < sizes.size(); ++d) axes.push_back(d);
  if (axes.size() == sizes.size()) throw NotMapped("one row is all there is");
  const std::string own = e.element(input);
  const Row row = row_over(e, sizes, axes);
  const std::string name = own.substr(0, own.find('['));
  const bool logarithm = node.op == "LogSoftmax";
  return {e.finish(
      fmt::format("M[{0}] max= {1}[{2}]; S[{0}] += exp({1}[{2}] - M[{0}]); {3} = {4}", row.place,
                  name, row.through, e.left(),
                  logarithm ? fmt::format("{} - M[{}] - log(S[{}])", own, row.place, row.place)
                            : fmt::format("exp({} - M[{}]) / S[{}]", own, row.place, row.place)))};
}

// Statistics that the model knows: a factor and a shift per channel, which are calculated once.
Mapped express_batch_norm(const Mapping& m, const Node& node) {
  if (node.integer("training_mode", 0) != 0) throw NotMapped("it is trained");
  const std::string name = node.outputs.at(0);
  const Sizes row = sizes_of_value(m, node.inputs.at(1));
  const ElemType type = m.elem(node.inputs[0]);
  Mapped drafts = channel_norm(m, node, node.inputs[1], node.inputs.at(2), node.inputs.at(3),
                               node.inputs.at(4), node.real("epsilon", 1e-5), name);
  IndexExpr e(m, node);
  const std::string channel = e.indices().at(e.indices().size() > 1 ? 1 : 0);
  const std::string factor = e.made_at(name + "/factor", row, type, {channel});
  const std::string shift = e.made_at(name + "/shift", row, type, {channel});
  drafts.push_back(e.finish(
      fmt::format("{} = {} * {} + {}", e.left(), e.element(node.inputs[0]), factor, shift)));
  return drafts;
}

Mapped express_instance_norm(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const std::string& input = node.inputs.at(0);
  const Sizes sizes = sizes_of_value(m, input);
  std::vector<size_t> axes;
  int64_t count = 1;
  for (size_t d = 2; d < sizes.size(); ++d) {
    axes.push_back(d);
    count *= sizes[d];
  }
  const std::string own = e.element(input), name = own.substr(0, own.find('['));
  const Row row = row_over(e, sizes, axes);
  const std::string gamma = e.at(node.inputs.at(1), {"i1"}), beta = e.at(node.inputs.at(2), {"i1"});
  const std::string off = fmt::format("({}[{}] - S[{}] / {})", name, row.through, row.place, count);
  return {
      e.finish(fmt::format("S[{0}] += {1}[{2}]; V[{0}] += {3} * {3}; {4} = ({5} - S[{0}] / {6}) * "
                           "rsqrt(V[{0}] / {6} + {7}) * {8} + {9}",
                           row.place, name, row.through, off, e.left(), own, count,
                           literal(node.real("epsilon", 1e-5)), gamma, beta))};
}

// Squares of neighbouring channels.
Mapped express_lrn(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const Sizes sizes = sizes_of_value(m, node.inputs.at(0));
  const int64_t size = node.integer("size", 1), before = (size - 1) / 2;
  const std::string own = e.element(node.inputs[0]), r = e.reduced(size);
  std::vector<std::string> at = e.indices();
  at.at(1) = fmt::format("i1 + {} - {}", r, before);
  const std::string other = e.at(node.inputs[0], at);
  const std::string inside =
      fmt::format("i1 + {0} >= {1} && i1 + {0} < {2}", r, before, sizes[1] + before);
  const std::string base =
      fmt::format("({} + {} * {})", literal(node.real("bias", 1)),
                  literal(node.real("alpha", 1e-4) / static_cast<double>(size)), e.left("S"));
  const double beta = node.real("beta", 0.75);
  const std::string power = beta == 0.75 ? fmt::format("(sqrt({0}) * sqrt(sqrt({0})))", base)
                                         : fmt::format("exp({} * log({}))", literal(beta), base);
  return {e.finish(fmt::format("{} += select({}, {} * {}, 0); {} = {} / {}", e.left("S"), inside,
                               other, other, e.left(), own, power))};
}

// The axes that a reduction takes away.
std::vector<size_t> axes_taken(const Mapping& m, const Node& node, size_t rank) {
  std::vector<size_t> axes;
  if (auto given = known_numbers(m, node, "axes", 1)) {
    for (int64_t a : *given) axes.push_back(checked_axis(a, rank));
  }
  if (axes.empty() && node.integer("noop_with_empty_axes", 0) != 0) {
    throw NotMapped("it reduces no axis");
  }
  for (size_t d = 0; axes.empty() && d < rank; ++d) axes.push_back(d);
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

// The element of the input over which a reduction to the output's axes runs.
std::string reduced_element(IndexExpr& e, const Mapping& m, const Node& node,
                            const std::vector<size_t>& axes, bool keep, int64_t* count) {
  const Sizes sizes = sizes_of_value(m, node.inputs.at(0));
  std::vector<std::string> at;
  size_t next = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (std::find(axes.begin(), axes.end(), d) != axes.end()) {
      at.push_back(e.reduced(sizes[d]));
      *count *= sizes[d];
      next += keep ? 1 : 0;
    } else {
      at.push_back(e.indices().at(next++));
    }
  }
  return e.at(node.inputs[0], at);
}

Mapped express_reduction(const Mapping& m, const Node& node) {
  const size_t rank = m.shape(node, 0).size();
  const std::vector<size_t> axes = axes_taken(m, node, rank);
  if (axes.empty()) throw NotMapped("there is nothing to reduce");
  IndexExpr e(m, node);
  int64_t count = 1;
  const std::string x = reduced_element(e, m, node, axes, node.integer("keepdims", 1) != 0, &count);
  const std::string& op = node.op;
  if (op == "ReduceMax") return {e.finish(fmt::format("{} max= {}", e.left(), x))};
  if (op == "ReduceMin") return {e.finish(fmt::format("{} min= {}", e.left(), x))};
  std::string term = x, result = e.left("S");
  if (op == "ReduceL1") term = fmt::format("abs({})", x);
  if (op == "ReduceL2" || op == "ReduceSumSquare") term = fmt::format("{} * {}", x, x);
  if (op == "ReduceLogSumExp") term = fmt::format("exp({})", x);
  if (op == "ReduceL2") result = fmt::format("sqrt({})", result);
  if (op == "ReduceLogSum" || op == "ReduceLogSumExp") result = fmt::format("log({})", result);
  if (op == "ReduceMean") result = fmt::format("{} / {}", result, count);
  if (op == "ReduceMean" && !is_float(m.elem(node.inputs[0]))) {
    throw NotMapped("it is a mean of integers");
  }
  if (result == e.left("S")) return {e.finish(fmt::format("{} += {}", e.left(), term))};
  return {e.finish(fmt::format("{} += {}; {} = {}", e.left("S"), term, e.left(), result))};
}

constexpr int64_t kLongestRow = int64_t{1} << 24;  // whose places are floats

// The first place of the extreme, or the last.
Mapped express_place(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const Sizes sizes = sizes_of_value(m, node.inputs.at(0));
  const size_t axis = checked_axis(node.integer("axis", 0), sizes.size());
  if (sizes[axis] > kLongestRow) throw NotMapped("its rows are too long");
  const bool last = node.integer("select_last_index", 0) != 0;
  int64_t count = 1;
  const std::string x =
      reduced_element(e, m, node, {axis}, node.integer("keepdims", 1) != 0, &count);
  return {e.finish(fmt::format("{0} {1}= {2}; {3} {4}= select({2} == {0}, r0, {5})", e.left("M"),
                               node.op == "ArgMax" ? "max" : "min", x, e.left(),
                               last ? "max" : "min", last ? "(-1)" : std::to_string(kLongestRow)))};
}

// By the place that each element has in the sorted row: how many stand before it there.
Mapped express_top(const Mapping& m, const Node& node) {
  const Sizes sizes = sizes_of_value(m, node.inputs.at(0));
  const size_t axis = checked_axis(node.integer("axis", -1), sizes.size());
  if (sizes[axis] > kLongestRow) throw NotMapped("its rows are too long");
  const char* before = node.integer("largest", 1) != 0 ? ">" : "<";
  Mapped drafts;
  for (size_t output = 0; output < node.outputs.size(); ++output) {
    if (node.outputs[output].empty()) continue;
    IndexExpr e(m, node, output);
    const std::string own = e.reduced(sizes[axis]), other = e.reduced(sizes[axis]);
    std::vector<std::string> at = e.indices();
    at[axis] = other;
    const std::string y = e.at(node.inputs[0], at);
    at[axis] = own;
    const std::string x = e.at(node.inputs[0], at);
    const std::string place = fmt::format("P[{}]", fmt::join(at, ", "));
    drafts.push_back(e.finish(fmt::format(
        "{0} += select({1} {2} {3} || {1} == {3} && {4} < {5}, 1, 0); {6} += select({0} == {7}, "
        "{8}, 0)",
        place, y, before, x, other, own, e.left(), e.indices()[axis], output == 0 ? x : own)));
  }
  return drafts;
}

Mapped express_running_sum(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  auto axis_given = known_numbers(m, node, "axis", 1);
  if (!axis_given || axis_given->size() != 1) throw NotMapped("its axis is not known");
  const size_t axis = checked_axis((*axis_given)[0], e.sizes().size());
  const std::string r = e.reduced(e.sizes()[axis]), own = e.indices()[axis];
  std::vector<std::string> at = e.indices();
  at[axis] = r;
  const bool reverse = node.integer("reverse", 0) != 0, open = node.integer("exclusive", 0) != 0;
  const std::string test = fmt::format("{} {}{} {}", r, reverse ? ">" : "<", open ? "" : "=", own);
  return {e.finish(
      fmt::format("{} += select({}, {}, 0)", e.left(), test, e.at(node.inputs.at(0), at)))};
}

// A product whose batches are broadcast.
Mapped express_product(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const Sizes left = sizes_of_value(m, node.inputs.at(0)),
              right = sizes_of_value(m, node.inputs.at(1));
  if (left.size() == 1 || right.size() == 1) {
    // One axis stands for a row or for a column.
    const std::string r = e.reduced(left.back());
    std::vector<std::string> row = {r}, column = {r};
    const bool scalar = left.size() == 1 && right.size() == 1;
    const size_t kept = scalar ? 0 : e.sizes().size();
    if (left.size() > 1) row.insert(row.begin(), e.indices().begin(), e.indices().end());
    if (right.size() > 1) {
      column.assign(e.indices().begin(), e.indices().begin() + static_cast<int64_t>(kept) - 1);
      column.push_back(r);
      column.push_back(e.indices().back());
    }
    const std::string a = e.at(node.inputs[0], row), b = e.at(node.inputs[1], column);
    return {e.finish(fmt::format("{} += {} * {}", e.left(), a, b))};
  }
  const Factors f = factors_of(e, m, node.inputs.at(0), node.inputs.at(1));
  return {e.finish(fmt::format("{} += {} * {}", e.left(), f.a, f.b))};
}

// alpha A B + beta C, whatever is calculated of them.
Mapped express_gemm(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const std::string &a = node.inputs.at(0), &b = node.inputs.at(1);
  const bool turned_a = node.integer("transA", 0) != 0, turned_b = node.integer("transB", 0) != 0;
  const std::string k = e.reduced(sizes_of_value(m, a).at(turned_a ? 0 : 1));
  const std::string x = turned_a ? e.at(a, {k, "i0"}) : e.at(a, {"i0", k});
  const std::string y = turned_b ? e.at(b, {"i1", k}) : e.at(b, {k, "i1"});
  std::string result = e.left("S");
  if (node.real("alpha", 1) != 1) result += " * " + literal(node.real("alpha", 1));
  if (node.has_input(2)) {
    result += fmt::format(" + {} * {}", e.element(node.inputs[2]), literal(node.real("beta", 1)));
  }
  return {e.finish(fmt::format("{} += {} * {}; {} = {}", e.left("S"), x, y, e.left(), result))};
}

}  // namespace

Mapped channel_norm(const Mapping& m, const Node& node, const std::string& gamma,
                    const std::string& beta, const std::string& mean, const std::string& variance,
                    double eps, const std::string& name) {
  const Sizes row = sizes_of_value(m, gamma);
  const ElemType type = m.elem(gamma);
  IndexExpr factor(m, node, name + "/factor", row, type);
  Draft first =
      factor.finish(fmt::format("{} = {} * rsqrt({} + {})", factor.left(), factor.at(gamma, {"i0"}),
                                factor.at(variance, {"i0"}), literal(eps)));
  IndexExpr shift(m, node, name + "/shift", row, type);
  const std::string scale = shift.made_at(name + "/factor", row, type, {"i0"});
  Draft second = shift.finish(fmt::format("{} = {} - {} * {}", shift.left(), shift.at(beta, {"i0"}),
                                          shift.at(mean, {"i0"}), scale));
  return {first, second};
}

const MapFns& whole_row_mappings() {
  static const MapFns kMappings = [] {
    MapFns mappings = {{"Softmax", express_softmax},
                       {"LogSoftmax", express_softmax},
                       {"BatchNormalization", express_batch_norm},
                       {"InstanceNormalization", express_instance_norm},
                       {"LRN", express_lrn},
                       {"ArgMax", express_place},
                       {"ArgMin", express_place},
                       {"TopK", express_top},
                       {"CumSum", express_running_sum}};
    for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1",
                           "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"}) {
      mappings[op] = express_reduction;
    }
    return mappings;
  }();
  return kMappings;
}

const MapFns& whole_product_mappings() {
  static const MapFns kMappings = {{"MatMul", express_product}, {"Gemm", express_gemm}};
  return kMappings;
}

}  // namespace tilewright::onnx
