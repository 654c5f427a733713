#include "graph/views.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "graph/places.h"
#include "ir/ops/expr/expr_syntax.h"
#include "ir/ops/spec.h"
#include "runtime/tensor/operands.h"

namespace tilewright::graph {
namespace {

using ops::Syntax;

constexpr int64_t kMostElements = int64_t{1} << 40;  // as of element_count

// A sum of indices, each with its factor, and a number.
struct Linear {
  std::map<std::string, int64_t> factors;
  int64_t number = 0;

  // Whether the sum fits: a model's steps times strides may not.
  bool add(const Linear& other, int64_t times) {
    bool fits = add_product(&number, other.number, times);
    for (const auto& [index, factor] : other.factors) {
      fits = add_product(&factors[index], factor, times) && fits;
    }
    return fits;
  }

  static bool add_product(int64_t* sum, int64_t a, int64_t b) {
    int64_t product = 0;
    return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(*sum, product, sum);
  }
};

std::optional<int64_t> whole_number(const Syntax& s) {
  int64_t value = 0;
  const char* end = s.text.data() + s.text.size();
  if (s.kind != Syntax::Kind::Number) return std::nullopt;
  if (std::from_chars(s.text.data(), end, value).ptr != end) return std::nullopt;
  if (value > kMostElements) return std::nullopt;
  return value;
}

std::optional<Linear> linear_of(const Syntax& s) {
  Linear sum;
  if (s.kind == Syntax::Kind::Name) {
    sum.factors[s.text] = 1;
    return sum;
  }
  if (auto number = whole_number(s)) {
    sum.number = *number;
    return sum;
  }
  if (s.kind != Syntax::Kind::Binary || s.args.size() != 2) return std::nullopt;
  const auto left = linear_of(s.args[0]), right = linear_of(s.args[1]);
  if (!left || !right) return std::nullopt;
  bool fits = false;
  if (s.text == "+" || s.text == "-") {
    fits = sum.add(*left, 1) && sum.add(*right, s.text == "+" ? 1 : -1);
  } else if (s.text == "*" && right->factors.empty()) {
    fits = sum.add(*left, right->number);
  } else if (s.text == "*" && left->factors.empty()) {
    fits = sum.add(*right, left->number);
  }
  return fits ? std::optional(sum) : std::nullopt;
}

Shape strides_of(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

// A workload of one statement that assigns.
struct Copy {
  ops::Statement statement;
  Shape shape, strides;                   // of the output
  std::map<std::string, Shape> operands;  // shapes by name
};

// Nothing for a workload of another form, or of several types.
std::optional<Copy> copy_of(const Node& node) {
  const Workload w = parse_workload(node.spec);
  if (w.op != "expr" || w.stages.size() != 1 || w.weight) return std::nullopt;
  Copy copy;
  const std::vector<OperandInfo> operands = operands_of(w, {});
  for (const OperandInfo& o : operands) {
    if (o.elem != operands.back().elem) return std::nullopt;
    if (o.role != ParamRole::Output) copy.operands[o.name] = o.shape;
  }
  std::string lines = tilewright::to_string(w);
  std::replace(lines.begin(), lines.end(), '\n', ';');
  std::vector<ops::Statement> statements;
  try {
    statements = ops::parse_statements(lines);
  } catch (const Error&) {
    return std::nullopt;
  }
  if (statements.size() != 1 || statements[0].assignment != "=") return std::nullopt;
  copy.statement = std::move(statements[0]);
  copy.shape = operands.back().shape;
  copy.strides = strides_of(copy.shape);
  if (copy.shape.size() != copy.statement.indices.size()) return std::nullopt;
  return copy;
}

// Where the element that stands first in the output stands in the operand, if the others follow in the
// same order.
std::optional<int64_t> first_of(const Copy& copy, const Syntax& read) {
  auto operand = copy.operands.find(read.text);
  if (read.kind != Syntax::Kind::Read || operand == copy.operands.end()) return std::nullopt;
  const Shape strides = strides_of(operand->second);
  if (read.args.size() != strides.size()) return std::nullopt;
  Linear place;
  for (size_t d = 0; d < strides.size(); ++d) {
    const auto at = linear_of(read.args[d]);
    if (!at || !place.add(*at, strides[d])) return std::nullopt;
  }
  for (size_t d = 0; d < copy.shape.size(); ++d) {
    const int64_t factor = place.factors[copy.statement.indices[d].text];
    if (copy.shape[d] > 1 && factor != copy.strides[d]) return std::nullopt;
  }
  return place.number;
}

// Elements of the output in front of the first for which `test`, index < NUMBER, is false.
std::optional<int64_t> end_of(const Copy& copy, const Syntax& test) {
  if (test.kind != Syntax::Kind::Compare || test.text != "<") return std::nullopt;
  const auto end = whole_number(test.args[1]);
  for (size_t d = 0; end && d < copy.shape.size(); ++d) {
    if (copy.statement.indices[d].text == test.args[0].text) {
      return std::min(*end, copy.shape[d]) * copy.strides[d];
    }
    if (copy.shape[d] != 1) break;  // several rows have such elements
  }
  return std::nullopt;
}

int64_t count_of(const Copy& copy, const Syntax& read) {
  return element_count(copy.operands.at(read.text)).value_or(0);
}

// The view that a copy is: a slice, or whole operands one after another.
std::optional<Node> view_of(const Copy& copy, const Node& node) {
  Node view;
  view.label = node.label;
  view.output = node.output;
  std::vector<size_t> parts;
  int64_t start = 0;
  const Syntax* at = &copy.statement.value;
  auto add_part = [&](const Syntax& read, int64_t end) {
    const auto first = first_of(copy, read);
    if (!first || *first != -start || count_of(copy, read) != end - start) return false;
    parts.push_back(node.operands.at(read.text));
    start = end;
    return true;
  };
  while (at->kind == Syntax::Kind::Call && at->text == "select") {
    const auto end = end_of(copy, at->args[0]);
    if (!end || !add_part(at->args[1], *end)) return std::nullopt;
    at = &at->args[2];
  }
  if (parts.empty()) {
    const auto first = first_of(copy, *at);
    if (!first) return std::nullopt;
    view.first = *first;
    parts = {node.operands.at(at->text)};
  } else if (!add_part(*at, element_count(copy.shape).value_or(0))) {
    return std::nullopt;
  }
  set_parts(&view, parts);
  return view;
}

}  // namespace

int use_views(Graph* graph) {
  int count = 0;
  for (Node& node : graph->nodes) {
    if (node.is_view()) continue;
    const auto copy = copy_of(node);
    auto view = copy ? view_of(*copy, node) : std::nullopt;
    if (!view) continue;
    std::swap(node, *view);
    try {
      places_of(*graph);
      ++count;
    } catch (const GraphError&) {
      std::swap(node, *view);
    }
  }
  return count;
}

}  // namespace tilewright::graph
