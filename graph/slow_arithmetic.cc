#include "graph/slow_arithmetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "graph/statements.h"
#include "ir/ops/spec.h"

namespace tilewright::graph {
namespace {

using ops::Syntax;

// 1 / number, where a float holds it in full precision.
std::optional<Syntax> inverse_of(const Syntax& number) {
  if (number.kind != Syntax::Kind::Number) return std::nullopt;
  const double inverse = 1 / std::strtod(number.text.c_str(), nullptr);
  if (!std::isnormal(static_cast<float>(inverse))) return std::nullopt;
  Syntax made = number;
  made.text = fmt::format("{}", inverse);
  return made;
}

int multiply_in(Text* text) {
  int count = 0;
  for (Stage& stage : text->stages) {
    walk(&stage.statement.value, [&](Syntax* s) {
      if (s->kind != Syntax::Kind::Binary || s->text != "/") return;
      auto inverse = inverse_of(s->args[1]);
      if (!inverse) return;
      s->text = "*";
      s->args[1] = std::move(*inverse);
      ++count;
    });
  }
  return count;
}

bool has_sum(const Node& node) {
  const auto text = node.is_workload() ? typed_text_of(node) : std::nullopt;
  return text && !std::ranges::all_of(text->stages, &Stage::is_function);
}

// The same numbers with zeros for subnormal ones; null where there is none.
Bytes without_subnormals(const std::string& data) {
  std::shared_ptr<std::string> made;
  for (size_t at = 0; at < data.size(); at += sizeof(float)) {
    float x;
    std::memcpy(&x, data.data() + at, sizeof x);
    if (std::fpclassify(x) != FP_SUBNORMAL) continue;
    if (made == nullptr) made = std::make_shared<std::string>(data);
    std::memset(made->data() + at, 0, sizeof x);
  }
  return made;
}

}  // namespace

int drop_subnormals(Graph* graph) {
  std::vector<bool> used(graph->values.size(), false), kept(graph->values.size(), false);
  for (size_t output : graph->outputs) kept[output] = true;
  for (const Node& node : graph->nodes) {
    std::vector<bool>& marks = has_sum(node) ? used : kept;
    for (const auto& [name, value] : node.operands) marks[value] = true;
  }
  int count = 0;
  for (size_t n = 0; n < used.size(); ++n) {
    Value& v = graph->values[n];
    // A single number may guard a logarithm or a quotient.
    const bool fits = v.constant && v.elem == ElemType::f32 && v.data != nullptr && v.count() > 1;
    if (!fits || !used[n] || kept[n]) continue;
    Bytes made = without_subnormals(*v.data);
    if (made == nullptr) continue;
    v.data = std::move(made);
    ++count;
  }
  return count;
}

int multiply_by_inverses(Graph* graph) {
  int count = 0;
  for (Node& node : graph->nodes) {
    if (!node.is_workload() || parse_spec(node.spec).op != "expr") continue;
    if (graph->values[node.output].count() == 1) continue;
    auto text = typed_text_of(node);
    const int own = text ? multiply_in(&*text) : 0;
    if (own == 0) continue;
    auto changed = node_of(std::move(*text), node.label, node.output);
    if (!changed) continue;
    node = std::move(*changed);
    count += own;
  }
  return count;
}

}  // namespace tilewright::graph
