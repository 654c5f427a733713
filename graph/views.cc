#include "graph/views.h"

#include <algorithm>
#include <map>
#include <optional>

#include "graph/places.h"
#include "graph/statements.h"
#include "ir/ops/expr/expr_bounds.h"
#include "ir/ops/spec.h"
#include "ir/oracle/oracle_shape.h"
#include "runtime/tensor/operands.h"

namespace tilewright::graph {
namespace {

using ops::Syntax;

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
  std::vector<ops::Statement> statements = statements_of(w);
  if (statements.size() != 1 || statements[0].assignment != "=") return std::nullopt;
  copy.statement = std::move(statements[0]);
  copy.shape = operands.back().shape;
  copy.strides = oracle::strides_of(copy.shape);
  if (copy.shape.size() != copy.statement.indices.size()) return std::nullopt;
  return copy;
}

// The place in the operand of the element that stands first in the output, if the others follow in the
// same order.
std::optional<int64_t> first_of(const Copy& copy, const Syntax& read) {
  auto operand = copy.operands.find(read.text);
  if (read.kind != Syntax::Kind::Read || operand == copy.operands.end()) return std::nullopt;
  const Shape strides = oracle::strides_of(operand->second);
  if (read.args.size() != strides.size()) return std::nullopt;
  std::optional<ops::Linear> place = ops::Linear{};
  for (size_t d = 0; d < strides.size(); ++d) {
    const auto at = ops::linear_form(read.args[d]);
    if (at) place = ops::add_scaled(std::move(*place), *at, strides[d]);
    if (!at || !place) return std::nullopt;
  }
  for (size_t d = 0; d < copy.shape.size(); ++d) {
    const int64_t factor = place->terms[copy.statement.indices[d].text];
    if (copy.shape[d] > 1 && factor != copy.strides[d]) return std::nullopt;
  }
  return place->constant;
}

// Elements of the output in front of the first for which `test`, index < NUMBER, is false.
std::optional<int64_t> end_of(const Copy& copy, const Syntax& test) {
  if (test.kind != Syntax::Kind::Compare || test.text != "<") return std::nullopt;
  const auto end = ops::linear_form(test.args[1]);
  if (!end || !end->terms.empty()) return std::nullopt;
  for (size_t d = 0; d < copy.shape.size(); ++d) {
    if (copy.statement.indices[d].text == test.args[0].text) {
      return std::min(end->constant, copy.shape[d]) * copy.strides[d];
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
    if (!node.is_workload()) continue;
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
