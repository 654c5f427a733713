#include "graph/reads.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

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

// An index over channels, the group of which a sum reads: i // size, as in a convolution with groups.
struct Grouped {
  size_t stage = 0, axis = 0;
  std::string index;
  int64_t size = 0;
};

// (i // size), with `i` and `size` of that index.
bool is_group(const Syntax& s, const Grouped& g) {
  return is_binary(s, "//") && is_name(s.args[0], g.index) &&
         s.args[1].kind == Syntax::Kind::Number && s.args[1].text == std::to_string(g.size);
}

std::optional<Grouped> grouped_index(const Text& text) {
  for (size_t n = 0; n < text.stages.size(); ++n) {
    const Stage& stage = text.stages[n];
    if (stage.statement.assignment != "+=") continue;
    for (size_t d = 0; d < stage.statement.indices.size(); ++d) {
      Grouped found{n, d, stage.indices[d].first, 0};
      walk(&stage.statement.value, [&](const Syntax* s) {
        if (!is_binary(*s, "//") || !is_name(s->args[0], found.index)) return;
        if (s->args[1].kind == Syntax::Kind::Number) found.size = std::stoll(s->args[1].text);
      });
      const int64_t all = stage.indices[d].second;
      if (found.size > 1 && all > found.size && all % found.size == 0) return found;
    }
  }
  return std::nullopt;
}

// The axis at which the input is read at that index alone.
std::optional<size_t> grouped_axis(Text* text, const TextInput& input, const Grouped& g) {
  const int64_t all = text->stages[g.stage].indices[g.axis].second;
  for (size_t k = 0; k < input.shape.size(); ++k) {
    bool same = input.shape[k] == all;
    for (size_t n = 0; n < text->stages.size(); ++n) {
      walk(&text->stages[n].statement.value, [&](const Syntax* s) {
        if (!is_read(*s) || s->text != input.name) return;
        same = same && n >= g.stage && is_name(s->args[k], g.index);
      });
    }
    if (same) return k;
  }
  return std::nullopt;
}

// Makes two indices of one, the group and the channel in it, so that what a sum reads follows from iterators alone.
bool split_groups(Text* text) {
  const auto g = grouped_index(*text);
  if (!g) return false;
  const std::string group = g->index + "_group", channel = g->index + "_channel";
  std::map<std::string, size_t> axes;  // of the tensors that have both
  for (size_t n = g->stage; n < text->stages.size(); ++n) {
    const Stage& stage = text->stages[n];
    if (stage.statement.indices.size() != text->stages[g->stage].statement.indices.size())
      return false;
    if (stage.indices[g->axis] != text->stages[g->stage].indices[g->axis]) return false;
    axes[stage.statement.target] = g->axis;
  }
  for (size_t n = g->stage; n < text->stages.size(); ++n) {
    bool plain = true;
    walk(&text->stages[n].statement.value, [&](const Syntax* s) {
      if (is_read(*s) && axes.contains(s->text))
        plain = plain && is_name(s->args[g->axis], g->index);
    });
    if (!plain) return false;
  }
  const auto split = [](auto* list, size_t axis, const auto& first, const auto& second) {
    (*list)[axis] = first;
    list->insert(list->begin() + static_cast<int64_t>(axis) + 1, second);
  };
  for (TextInput& input : text->inputs) {
    const auto axis = grouped_axis(text, input, *g);
    if (!axis) continue;
    axes[input.name] = *axis;
    split(&input.shape, *axis, input.shape[*axis] / g->size, g->size);
  }
  for (size_t n = g->stage; n < text->stages.size(); ++n) {
    Stage& stage = text->stages[n];
    walk(&stage.statement.value, [&](Syntax* s) {
      if (is_group(*s, *g)) *s = name_syntax(group);
      if (!is_read(*s) || !axes.contains(s->text)) return;
      split(&s->args, axes[s->text], name_syntax(group), name_syntax(channel));
    });
    substitute(&stage.statement.value,
               {{g->index,
                 binary_syntax("+", binary_syntax("*", name_syntax(group), number_syntax(g->size)),
                               name_syntax(channel))}});
    const int64_t groups = stage.indices[g->axis].second / g->size;
    split(&stage.indices, g->axis, std::pair(group, groups), std::pair(channel, g->size));
    split(&stage.statement.indices, g->axis, name_syntax(group), name_syntax(channel));
  }
  return true;
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
    if (!node.is_workload()) continue;
    auto text = typed_text_of(node);
    if (!text) continue;
    bool simpler = split_groups(&*text);
    // Other operators have the axes and the weights that their rules want.
    if (parse_spec(node.spec).op == "expr") {
      simpler = mark_weights(*graph, &*text) || simpler;
      simpler = drop_in(&*text) || simpler;
    }
    if (!simpler) continue;
    auto changed = node_of(std::move(*text), node.label, node.output);
    if (!changed) continue;
    node = std::move(*changed);
    ++count;
  }
  return count;
}

}  // namespace tilewright::graph
