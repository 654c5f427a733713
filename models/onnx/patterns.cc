#include "models/onnx/patterns.h"

#include <algorithm>
#include <cmath>

namespace tilewright::onnx {
namespace {

using Nodes = std::vector<const Node*>;

bool near(std::optional<double> value, double wanted) {
  return value && std::abs(*value - wanted) <= 1e-3 * std::abs(wanted);
}

bool is(const Node* node, const char* op) { return node != nullptr && node->op == op; }

// Follows a value through nodes that are its only users.
class Walk {
 public:
  Walk(const Graph& graph, std::string at) : graph_(graph), at_(std::move(at)) {}

  // Steps over `op`, whose other input, where it has one, is a constant near `wanted`.
  bool over(const char* op) { return step(is(next(), op) ? next() : nullptr); }
  bool over(const char* op, double wanted) {
    const Node* n = next();
    return is(n, op) && near(constant_beside(*n), wanted) && step(n);
  }
  // Steps over `op` of this value and `other`.
  bool with(const char* op, const std::string& other) {
    const Node* n = next();
    return is(n, op) && n->inputs.size() == 2 && Graph::other_input(*n, at_) == other && step(n);
  }
  const Node* next() const { return graph_.only_user(at_); }
  bool step(const Node* node) {
    if (node == nullptr || node->outputs.empty()) return false;
    nodes_.push_back(node);
    at_ = node->outputs[0];
    return true;
  }
  std::optional<double> constant_beside(const Node& n) const {
    return graph_.value(Graph::other_input(n, at_)).scalar();
  }
  const std::string& at() const { return at_; }
  const Nodes& nodes() const { return nodes_; }

 private:
  const Graph& graph_;
  std::string at_;
  Nodes nodes_;
};

std::optional<FunctionMatch> one_node(const Graph& graph, const std::string& value) {
  const Node* user = graph.only_user(value);
  if (user == nullptr || user->inputs.size() != 1 || user->outputs.empty()) return std::nullopt;
  const std::string op = user->full_op();
  std::string fn;
  if (op == "Relu") fn = "relu";
  if (op == "com.microsoft.Gelu") fn = "gelu";
  if (op == "Gelu" && user->text("approximate", "none") == "none") fn = "gelu";
  if (op == "Swish" && near(user->real("alpha", 1), 1)) fn = "silu";
  if (op == "com.microsoft.QuickGelu" && near(user->real("alpha", 1.702), 1)) fn = "silu";
  if (fn.empty()) return std::nullopt;
  return FunctionMatch{fn, user->outputs[0], {user}};
}

// x * sigmoid(x)
std::optional<FunctionMatch> match_silu(const Graph& graph, const std::string& x) {
  for (const Node* first : graph.users(x)) {
    Walk walk(graph, x);
    if (is(first, "Sigmoid") && walk.step(first) && walk.with("Mul", x)) {
      return FunctionMatch{"silu", walk.at(), walk.nodes()};
    }
  }
  return std::nullopt;
}

// x / 2 (1 + erf(x / sqrt(2))), the half at the end, at x, or at the bracket.
std::optional<FunctionMatch> match_gelu(const Graph& graph, const std::string& x) {
  for (const Node* first : graph.users(x)) {
    Walk walk(graph, x);
    auto beside = walk.constant_beside(*first);
    const bool scaled =
        (is(first, "Div") && first->inputs[0] == x && near(beside, std::sqrt(2.0))) ||
        (is(first, "Mul") && near(beside, std::sqrt(0.5)));
    if (!scaled || !walk.step(first) || !walk.over("Erf") || !walk.over("Add", 1)) continue;
    const bool bracket_halved = walk.over("Mul", 0.5);
    if (walk.with("Mul", x) && (bracket_halved || walk.over("Mul", 0.5))) {
      return FunctionMatch{"gelu", walk.at(), walk.nodes()};
    }
    if (bracket_halved || !is(walk.next(), "Mul")) continue;
    const Node* half = graph.producer(Graph::other_input(*walk.next(), walk.at()));
    const bool halves = is(half, "Mul") && graph.only_user(half->outputs[0]) == walk.next() &&
                        std::count(half->inputs.begin(), half->inputs.end(), x) == 1 &&
                        near(graph.value(Graph::other_input(*half, x)).scalar(), 0.5);
    if (!halves || !walk.step(walk.next())) continue;
    Nodes nodes = walk.nodes();
    nodes.push_back(half);
    return FunctionMatch{"gelu", walk.at(), nodes};
  }
  return std::nullopt;
}

// Whether all that takes the value is part of the match.
bool covers(const Graph& graph, const std::string& value, const Nodes& nodes) {
  const Nodes& users = graph.users(value);
  return !graph.is_output(value) && std::all_of(users.begin(), users.end(), [&](const Node* user) {
    return std::find(nodes.begin(), nodes.end(), user) != nodes.end();
  });
}

// Whether a mean is taken over the last axis alone, and keeps it.
bool over_rows(const Graph& graph, const Node& mean) {
  const std::optional<Shape>& shape = graph.value(mean.inputs[0]).shape;
  if (!shape || mean.integer("keepdims", 1) == 0) return false;
  std::vector<int64_t> axes = mean.integers("axes").value_or(std::vector<int64_t>());
  if (mean.has_input(1)) {
    const std::optional<Shape>& contents = graph.value(mean.inputs[1]).contents;
    if (!contents || contents->size() != 1 || !(*contents)[0].fixed()) return false;
    axes = {(*contents)[0].number()};
  }
  const auto last = static_cast<int64_t>(shape->size()) - 1;
  return axes.size() == 1 && (axes[0] == -1 || axes[0] == last);
}

// x * x, by whichever operator.
bool squares(const Graph& graph, const Node& node) {
  if (node.inputs.size() != 2 || node.outputs.empty()) return false;
  if (node.op == "Mul") return node.inputs[0] == node.inputs[1];
  return node.op == "Pow" && near(graph.value(node.inputs[1]).scalar(), 2);
}

// From the mean of squares to x / sqrt(mean + eps): the value, eps, and the nodes on the way.
bool divide_by_root(const Graph& graph, const std::string& x, Walk* walk, double* eps) {
  const Node* mean = walk->next();
  if (!is(mean, "ReduceMean") || !over_rows(graph, *mean) || !walk->step(mean)) return false;
  const Node* add = walk->next();
  if (!is(add, "Add")) return false;
  auto beside = walk->constant_beside(*add);
  if (!beside || !(*beside > 0) || !walk->step(add) || !walk->over("Sqrt")) return false;
  *eps = *beside;
  const Node* next = walk->next();
  if (is(next, "Reciprocal")) return walk->step(next) && walk->with("Mul", x);
  if (!is(next, "Div") || next->inputs.size() != 2 || next->inputs[1] != walk->at()) return false;
  if (near(graph.value(next->inputs[0]).scalar(), 1)) {
    return walk->step(next) && walk->with("Mul", x);
  }
  return next->inputs[0] == x && walk->step(next);
}

// The constant row that the next node multiplies by or adds, if it is one.
std::string affine_row(const Graph& graph, Walk* walk, const char* op, const Extent& columns) {
  const Node* next = walk->next();
  if (!is(next, op) || next->inputs.size() != 2) return "";
  const std::string& row = Graph::other_input(*next, walk->at());
  const Value& v = graph.value(row);
  const bool fits = v.constant && v.shape && *v.shape == Shape{columns};
  return fits && walk->step(next) ? row : "";
}

}  // namespace

std::optional<FunctionMatch> match_function(const Graph& graph, const std::string& value) {
  if (auto match = one_node(graph, value)) return match;
  for (const auto& match : {match_silu(graph, value), match_gelu(graph, value)}) {
    if (match && covers(graph, value, match->nodes)) return match;
  }
  return std::nullopt;
}

std::optional<NormMatch> match_norm(const Graph& graph, const Node& first) {
  if (first.inputs.empty() || first.outputs.empty()) return std::nullopt;
  const std::string& x = first.inputs[0];
  const std::optional<Shape>& shape = graph.value(x).shape;
  if (!shape || shape->empty()) return std::nullopt;
  NormMatch match;
  match.input = x;
  Walk walk(graph, x);
  if (squares(graph, first)) {
    match.op = "rms_norm";
    walk.step(&first);
    if (!divide_by_root(graph, x, &walk, &match.eps)) return std::nullopt;
  } else if (is(&first, "ReduceMean") && over_rows(graph, first)) {
    match.op = "layer_norm";
    walk.step(&first);
    const Node* minus = walk.next();
    if (!is(minus, "Sub") || minus->inputs[0] != x || !walk.step(minus)) return std::nullopt;
    const std::string distance = walk.at();
    const Nodes users = graph.users(distance);
    auto square =
        std::find_if(users.begin(), users.end(), [&](const Node* n) { return squares(graph, *n); });
    if (square == users.end() || !walk.step(*square)) return std::nullopt;
    if (!divide_by_root(graph, distance, &walk, &match.eps)) return std::nullopt;
    if (!covers(graph, distance, walk.nodes())) return std::nullopt;
  } else {
    return std::nullopt;
  }
  match.gamma = affine_row(graph, &walk, "Mul", shape->back());
  if (!match.gamma.empty() && match.op == "layer_norm") {
    match.beta = affine_row(graph, &walk, "Add", shape->back());
  }
  match.output = walk.at();
  match.nodes = walk.nodes();
  return match;
}

}  // namespace tilewright::onnx
