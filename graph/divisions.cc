#include "graph/divisions.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

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

}  // namespace

int multiply_by_inverses(Graph* graph) {
  int count = 0;
  for (Node& node : graph->nodes) {
    if (node.is_view() || parse_spec(node.spec).op != "expr") continue;
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
