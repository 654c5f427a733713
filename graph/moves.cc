#include "graph/moves.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "graph/interpret.h"
#include "ir/ops/expr/expr_bounds.h"
#include "ir/oracle/oracle_shape.h"

namespace tilewright::graph {
namespace {

using ops::Syntax;

constexpr size_t kMostNodes = 400;  // of an expression that stands in the place of its stages

Syntax scaled_index(const Syntax& s, int64_t factor) {
  return factor == 1 ? s : binary_syntax("*", s, number_syntax(factor));
}

// Axes [begin, end) of both shapes with as many elements.
struct AxisGroup {
  size_t from_begin, from_end, to_begin, to_end;
};

// One index of the group's elements, all axes of it together.
Syntax joined_index(const std::vector<Syntax>& at, const Shape& from, const AxisGroup& g) {
  std::optional<Syntax> sum;
  int64_t stride = 1;
  for (size_t d = g.from_end; d-- > g.from_begin; stride *= from[d]) {
    if (from[d] == 1 || is_zero(at[d])) continue;
    Syntax term = scaled_index(at[d], stride);
    sum = sum ? binary_syntax("+", std::move(term), std::move(*sum)) : std::move(term);
  }
  return sum ? *sum : number_syntax(0);
}

// Cuts one index into those of several axes.
void split_index(const Syntax& at, const Shape& to, const AxisGroup& g, std::vector<Syntax>* out) {
  const auto known = ops::linear_form(at);
  int64_t stride = 1;
  for (size_t d = g.to_end; d-- > g.to_begin; stride *= to[d]) {
    if (to[d] == 1) continue;
    if (known && known->terms.empty()) {
      (*out)[d] = number_syntax(known->constant / stride % to[d]);
      continue;
    }
    Syntax own = stride == 1 ? at : binary_syntax("//", at, number_syntax(stride));
    const bool outermost =
        std::all_of(to.begin() + static_cast<int64_t>(g.to_begin),
                    to.begin() + static_cast<int64_t>(d), [](int64_t size) { return size == 1; });
    (*out)[d] = outermost ? own : binary_syntax("%", std::move(own), number_syntax(to[d]));
  }
}

bool has_operator(const Syntax& s, const std::string& op) {
  if (s.kind == Syntax::Kind::Binary && s.text == op) return true;
  return std::any_of(s.args.begin(), s.args.end(),
                     [&](const Syntax& arg) { return has_operator(arg, op); });
}

// The indices whose neighbours stand side by side.
std::set<std::string> contiguous_indices(const std::vector<Syntax>& at) {
  std::set<std::string> names;
  for (size_t d = at.size(); d-- > 0 && names.empty();) {
    const auto form = ops::linear_form(at[d]);
    if (!form) break;
    for (const auto& [name, factor] : form->terms) {
      if (factor == 1) names.insert(name);
    }
    if (!form->terms.empty()) break;
  }
  return names;
}

size_t size_of(const Syntax& s) {
  size_t size = 1;
  for (const Syntax& arg : s.args) size += size_of(arg);
  return size;
}

bool is_cheap(const Syntax& s) {
  if (s.kind == Syntax::Kind::Call) return false;
  return std::all_of(s.args.begin(), s.args.end(), is_cheap);
}

int64_t elements_of(const Stage& stage) {
  int64_t count = 1;
  for (const auto& [name, size] : stage.indices) count *= size;
  return count;
}

// Whether a text has a softmax between two products.
bool is_attention(const Text& text) {
  int sums = 0, maxima = 0;
  for (const Stage& stage : text.stages) {
    sums += stage.statement.assignment == "+=" ? 1 : 0;
    maxima += stage.statement.assignment == "max=" ? 1 : 0;
  }
  return sums == 3 && maxima == 1;
}

// Elements of one value, each as the indices of an array of that shape.
struct Elements {
  size_t value = 0;
  Shape shape;
  std::vector<std::vector<Syntax>> at;
};

class MoveFolder {
 public:
  explicit MoveFolder(Graph* graph) : graph_(*graph), makers_(makers_of(*graph)) { count_uses(); }

  int run() {
    int count = 0;
    for (Node& node : graph_.nodes) {
      if (!node.is_workload()) continue;
      auto text = text_of(node);
      const int changes = text ? change(&*text) : 0;
      if (changes == 0) continue;
      auto changed = node_of(std::move(*text), node.label, node.output);
      if (!changed) continue;
      node = std::move(*changed);
      count_uses();
      count += changes;
    }
    drop_unused(&graph_);
    return count;
  }

 private:
  void count_uses() {
    uses_.assign(graph_.values.size(), 0);
    for (const Node& node : graph_.nodes) {
      for (const auto& [name, value] : node.operands) ++uses_[value];
    }
    for (size_t i : graph_.outputs) ++uses_[i];
  }

  int change(Text* text) {
    int changes = 0;
    for (size_t i = 0; i < text->inputs.size();) {
      const bool taken = !text->inputs[i].weight && take_function(text, i);
      const bool moved = !taken && !text->inputs[i].weight && take_moves(text, i);
      if (taken || moved) ++changes;
      if (!taken) ++i;  // else another one stands there
    }
    return changes;
  }

  struct Read {
    Syntax* syntax;
    const Stage* stage;
  };
  static std::vector<Read> reads_of(Text* text, const std::string& name) {
    std::vector<Read> reads;
    for (Stage& stage : text->stages) {
      walk(&stage.statement.value, [&](Syntax* s) {
        if (is_read(*s) && s->text == name) reads.push_back({s, &stage});
      });
    }
    return reads;
  }

  // Follows the operand through views and moves, as far as the reader may go.
  bool take_moves(Text* text, size_t input) {
    TextInput& operand = text->inputs[input];
    const std::vector<Read> reads = reads_of(text, operand.name);
    Elements now{operand.value, operand.shape, {}};
    for (const Read& read : reads) now.at.push_back(read.syntax->args);
    const bool attention = is_attention(*text);
    bool alone = true;  // whether nothing else reads what is passed
    std::optional<Elements> best;
    while (true) {
      alone = alone && uses_[now.value] == 1;
      bool moved = false;
      auto next = before(now, &moved);
      if (!next) break;
      now = std::move(*next);
      bool fits = moved;
      for (size_t r = 0; fits && r < reads.size(); ++r) {
        const bool same =
            contiguous_indices(now.at[r]) == contiguous_indices(reads[r].syntax->args);
        const bool free = attention || (alone && reads[r].stage->is_function());
        fits = same || free;
        for (const Syntax& index : now.at[r]) fits = fits && !has_operator(index, "%");
      }
      if (fits) best = now;
    }
    if (!best) return false;
    operand.value = best->value;
    operand.shape = best->shape;
    operand.elem = graph_.values[best->value].elem;
    for (size_t r = 0; r < reads.size(); ++r) reads[r].syntax->args = best->at[r];
    return true;
  }

  // The same elements one node earlier. `moved`: that node copies.
  std::optional<Elements> before(const Elements& now, bool* moved) const {
    if (!makers_[now.value]) return std::nullopt;
    const Node& node = graph_.nodes[*makers_[now.value]];
    if (node.is_view()) return before_view(now, node);
    auto text = text_of(node);
    const auto value = text ? value_of(*text) : std::nullopt;
    if (!value || !is_read(*value)) return std::nullopt;
    if (!std::ranges::all_of(value->args, ops::is_index_arithmetic)) return std::nullopt;
    const TextInput* source = input_of(&*text, value->text);
    Elements next{source->value, source->shape, {}};
    for (const auto& at : now.at) {
      auto element = at_output(*text, *value, at, now.shape);
      if (!element) return std::nullopt;
      next.at.push_back(element->args);
    }
    *moved = true;
    return next;
  }

  // `value`, which is over the axes of the text's output, at an element of an array of this shape.
  static std::optional<Syntax> at_output(const Text& text, Syntax value,
                                         const std::vector<Syntax>& at, const Shape& shape) {
    const Indices axes = text.stages.back().axes();
    const auto own = reshaped(at, shape, sizes_of(axes));
    if (!own) return std::nullopt;
    std::map<std::string, Syntax> places;
    for (size_t d = 0; d < axes.size(); ++d) places[axes[d].first] = (*own)[d];
    substitute(&value, places);
    return value;
  }

  std::optional<Elements> before_view(const Elements& now, const Node& node) const {
    const std::vector<size_t> parts = node.parts();
    if (parts.size() != 1) return std::nullopt;
    const Shape& whole = graph_.values[parts[0]].shape;
    const int64_t count = graph_.values[node.output].count();
    // The axes from `inner` on are whole; one step along the axis in front of them is `stride` elements.
    const Shape strides = oracle::strides_of(whole);
    size_t outer = 0;
    while (outer < whole.size() &&
           (count % strides[outer] != 0 || node.first % strides[outer] != 0)) {
      ++outer;
    }
    const bool all = count == graph_.values[parts[0]].count();
    if (!all && (outer == whole.size() || (outer > 0 && count != strides[outer]))) {
      return std::nullopt;
    }
    Elements next{parts[0], whole, {}};
    Shape part = whole;
    for (size_t d = 0; !all && d < outer; ++d) part[d] = 1;
    if (!all) part[outer] = count / strides[outer];
    for (const auto& at : now.at) {
      auto own = reshaped(at, now.shape, part);
      if (!own) return std::nullopt;
      int64_t rest = node.first;
      for (size_t d = 0; !all && d <= outer; ++d) {
        const int64_t first = rest / strides[d];
        rest %= strides[d];
        if (first == 0) continue;
        Syntax& index = (*own)[d];
        index = is_zero(index) ? number_syntax(first)
                               : binary_syntax("+", std::move(index), number_syntax(first));
      }
      next.at.push_back(std::move(*own));
    }
    return next;
  }

  // A function that nothing else reads, in the place of its element.
  bool take_function(Text* text, size_t input) {
    const TextInput operand = text->inputs[input];
    if (uses_[operand.value] != 1 || !makers_[operand.value]) return false;
    const std::vector<Read> reads = reads_of(text, operand.name);
    if (reads.size() != 1 || !reads[0].stage->is_function()) return false;
    auto made = text_of(graph_.nodes[*makers_[operand.value]]);
    auto value = made ? value_of(*made) : std::nullopt;
    if (!value) return false;
    const bool twice =
        elements_of(*reads[0].stage) > graph_.values[operand.value].count() && !is_cheap(*value);
    if (twice) return false;
    prefix(&*made, fmt::format("m{}_", taken_++));
    auto element = at_output(*made, *value_of(*made), reads[0].syntax->args, operand.shape);
    if (!element || has_operator(*element, "%")) return false;
    *reads[0].syntax = std::move(*element);
    text->inputs.erase(text->inputs.begin() + static_cast<int64_t>(input));
    text->inputs.insert(text->inputs.end(), made->inputs.begin(), made->inputs.end());
    return true;
  }

  Graph& graph_;
  const std::vector<std::optional<size_t>> makers_;  // changed nodes make what they made
  std::vector<size_t> uses_;
  int taken_ = 0;  // functions, each with names of its own
};

}  // namespace

std::optional<std::vector<Syntax>> reshaped(const std::vector<Syntax>& at, const Shape& from,
                                            const Shape& to) {
  if (at.size() != from.size() || oracle::product(from) != oracle::product(to)) return std::nullopt;
  std::vector<Syntax> out(to.size(), number_syntax(0));
  size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    if (from[i] == 1) {
      ++i;
      continue;
    }
    if (to[j] == 1) {
      ++j;
      continue;
    }
    AxisGroup g{i, i + 1, j, j + 1};
    int64_t a = from[i], b = to[j];
    while (a != b) (a < b ? a *= from[g.from_end++] : b *= to[g.to_end++]);
    const auto many = [](const Shape& shape, size_t begin, size_t end) {
      return std::count_if(shape.begin() + static_cast<int64_t>(begin),
                           shape.begin() + static_cast<int64_t>(end),
                           [](int64_t size) { return size != 1; }) > 1;
    };
    if (many(from, g.from_begin, g.from_end) && many(to, g.to_begin, g.to_end)) return std::nullopt;
    split_index(joined_index(at, from, g), to, g, &out);
    i = g.from_end;
    j = g.to_end;
  }
  return out;
}

std::optional<Syntax> value_of(const Text& text) {
  std::map<std::string, const Stage*> stages;
  std::map<std::string, Syntax> values;
  for (const Stage& stage : text.stages) {
    if (!stage.is_function()) return std::nullopt;
    Syntax value = stage.statement.value;
    walk(&value, [&](Syntax* s) {
      auto made = is_read(*s) ? values.find(s->text) : values.end();
      if (made == values.end()) return;
      const Indices axes = stages.at(s->text)->axes();
      std::map<std::string, Syntax> places;
      for (size_t d = 0; d < axes.size(); ++d) places[axes[d].first] = s->args[d];
      Syntax own = made->second;
      substitute(&own, places);
      *s = std::move(own);
    });
    if (size_of(value) > kMostNodes) return std::nullopt;
    stages[stage.statement.target] = &stage;
    values[stage.statement.target] = std::move(value);
  }
  return values.at(text.stages.back().statement.target);
}

std::vector<std::optional<size_t>> makers_of(const Graph& graph) {
  std::vector<std::optional<size_t>> makers(graph.values.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) makers[graph.nodes[n].output] = n;
  return makers;
}

int fold_moves(Graph* graph) { return MoveFolder(graph).run(); }

}  // namespace tilewright::graph
