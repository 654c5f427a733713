#include "graph/reads.h"

#include <set>

#include "graph/statements.h"
#include "ir/ops/spec.h"

namespace tilewright::graph {
namespace {

using ops::Syntax;

bool is_binary(const Syntax& s, const char* op) {
  return s.kind == Syntax::Kind::Binary && s.text == op;
}

// Sums with 0 and products with 0 in the indices of a read.
void simplify_index(Syntax* index) {
  walk(index, [](Syntax* s) {
    if (is_binary(*s, "*") && (is_zero(s->args[0]) || is_zero(s->args[1]))) *s = number_syntax(0);
    if (!is_binary(*s, "+")) return;
    const bool first = is_zero(s->args[0]);
    if (first || is_zero(s->args[1])) *s = Syntax(s->args[first ? 1 : 0]);
  });
}

template <class Fn>
void each_read(Text* text, const std::string& tensor, const Fn& fn) {
  for (Stage& stage : text->stages) {
    walk(&stage.statement.value, [&](Syntax* s) {
      if (is_read(*s) && s->text == tensor) fn(s);
    });
  }
}

// Index `i` of the stage, which has one value.
void drop_index(Stage* stage, size_t i) {
  substitute(&stage->statement.value, {{stage->indices[i].first, number_syntax(0)}});
  walk(&stage->statement.value, [](Syntax* s) {
    if (!is_read(*s)) return;
    for (Syntax& index : s->args) simplify_index(&index);
  });
  stage->indices.erase(stage->indices.begin() + static_cast<int64_t>(i));
}

bool drop_sums(Stage* stage) {
  const size_t left = stage->statement.indices.size();
  bool dropped = false;
  for (size_t i = stage->indices.size(); i-- > left && stage->indices.size() > left + 1;) {
    if (stage->indices[i].second != 1) continue;
    drop_index(stage, i);
    dropped = true;
  }
  return dropped;
}

// The last axes of what the stage makes.
bool drop_made(Text* text, Stage* stage) {
  bool dropped = false;
  while (stage->statement.indices.size() > 1) {
    const size_t last = stage->statement.indices.size() - 1;
    if (stage->indices[last].second != 1) break;
    drop_index(stage, last);
    stage->statement.indices.pop_back();
    each_read(text, stage->statement.target, [](Syntax* s) { s->args.pop_back(); });
    dropped = true;
  }
  return dropped;
}

// The last axes of an input, where all reads are at 0; of a weight all such axes, since rules pack weights whose
// indices are all iterators.
bool drop_read(Text* text, TextInput* input) {
  bool dropped = false;
  for (size_t d = input->shape.size(); d-- > 0 && input->shape.size() > 1;) {
    bool unit = input->shape[d] == 1;
    each_read(text, input->name, [&](Syntax* s) { unit = unit && is_zero(s->args[d]); });
    if (!unit && !input->weight) break;
    if (!unit) continue;
    const auto at = static_cast<int64_t>(d);
    input->shape.erase(input->shape.begin() + at);
    each_read(text, input->name, [&](Syntax* s) { s->args.erase(s->args.begin() + at); });
    dropped = true;
  }
  return dropped;
}

// The inputs that a product in a sum reads.
std::set<std::string> factors_in(const Text& text) {
  std::set<std::string> factors;
  for (const Stage& stage : text.stages) {
    if (stage.statement.assignment != "+=") continue;
    walk(&stage.statement.value, [&](const Syntax* s) {
      if (!is_binary(*s, "*")) return;
      for (const Syntax& factor : s->args) {
        if (is_read(factor)) factors.insert(factor.text);
      }
    });
  }
  return factors;
}

// Constants that a sum multiplies by what is none, each read once.
bool mark_weights(const Graph& graph, Text* text) {
  const std::set<std::string> factors = factors_in(*text);
  bool marked = false;
  for (TextInput& input : text->inputs) {
    const Value& value = graph.values[input.value];
    if (input.weight || !value.constant || input.shape.size() < 2) continue;
    if (!factors.contains(input.name) || reads_of(*text, input.name) != 1) continue;
    input.weight = marked = true;
  }
  return marked;
}

bool drop_in(Text* text) {
  bool dropped = false;
  for (Stage& stage : text->stages) {
    dropped = drop_sums(&stage) || dropped;
    dropped = drop_made(text, &stage) || dropped;
  }
  for (TextInput& input : text->inputs) dropped = drop_read(text, &input) || dropped;
  return dropped;
}

}  // namespace

int simplify_reads(Graph* graph) {
  int count = 0;
  for (Node& node : graph->nodes) {
    if (!node.is_workload() || parse_spec(node.spec).op != "expr") continue;
    auto text = typed_text_of(node);
    if (!text) continue;
    const bool marked = mark_weights(*graph, &*text), dropped = drop_in(&*text);
    if (!marked && !dropped) continue;
    auto changed = node_of(std::move(*text), node.label, node.output);
    if (!changed) continue;
    node = std::move(*changed);
    ++count;
  }
  return count;
}

}  // namespace tilewright::graph
