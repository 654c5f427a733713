#include "graph/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "graph/interpret.h"
#include "graph/moves.h"
#include "graph/statements.h"
#include "ir/ops/spec.h"
#include "runtime/tensor/element.h"

namespace tilewright::graph {
namespace {

using ops::Syntax;

constexpr double kMasked = -1e30;  // a score that this is added to has no weight
constexpr const char* kLeast = "3.4028235e+38";

// The two reads of a sum of products of inputs over one index; nothing for other stages.
std::optional<std::pair<Syntax*, Syntax*>> factors_of(Text* text) {
  Stage& stage = text->stages.front();
  Syntax& value = stage.statement.value;
  const bool sums = stage.statement.assignment == "+=" &&
                    stage.indices.size() == stage.statement.indices.size() + 1;
  if (!sums || value.kind != Syntax::Kind::Binary || value.text != "*") return std::nullopt;
  if (!is_read(value.args[0]) || !is_read(value.args[1])) return std::nullopt;
  if (value.args[0].text == value.args[1].text) return std::nullopt;
  return std::pair{&value.args[0], &value.args[1]};
}

bool are_functions(const Text& text) {
  return std::all_of(text.stages.begin() + 1, text.stages.end(),
                     [](const Stage& s) { return s.is_function(); });
}

// Whether the tree reads the stage's element at these axes, and all of them.
bool is_element(const Syntax& s, const Stage& stage, const Indices& axes) {
  return is_read(s) && s.text == stage.statement.target &&
         sizes_of(stage.axes()) == sizes_of(axes) &&
         std::ranges::equal(s.args, axes, [](const Syntax& arg, const auto& axis) {
           return is_name(arg, axis.first);
         });
}

Syntax least() {
  Syntax number = number_syntax(0), negative;
  number.text = kLeast;
  negative.kind = Syntax::Kind::Negate;
  negative.args = {number};
  return negative;
}

bool is_same(const Syntax& a, const Syntax& b) {
  return a.kind == b.kind && a.text == b.text && std::ranges::equal(a.args, b.args, is_same);
}

// A step that shows or hides scores by the elements of a mask.
struct MaskStep {
  Syntax mask, scores;  // a read; what else the step reads
  enum { Added, ShownWhereSet, HiddenWhereSet } kind;

  bool shows(double element) const { return (kind == ShownWhereSet) == (element != 0); }
  bool hides(double element) const {
    return kind == Added ? element <= kMasked : (kind == HiddenWhereSet) == (element != 0);
  }
};

bool is_masked_number(const Syntax& s) {
  return s.kind == Syntax::Kind::Negate && s.args[0].kind == Syntax::Kind::Number &&
         -std::strtod(s.args[0].text.c_str(), nullptr) <= kMasked;
}

// The ways to take the value as such a step: scores + mask, select(mask != 0, scores, -3.4e38).
std::vector<MaskStep> mask_steps(const Syntax& value) {
  std::vector<MaskStep> steps;
  if (value.kind == Syntax::Kind::Binary && value.text == "+") {
    for (size_t side : {size_t{0}, size_t{1}}) {
      if (!is_read(value.args[side])) continue;
      steps.push_back({value.args[side], value.args[1 - side], MaskStep::Added});
    }
  }
  if (value.kind != Syntax::Kind::Call || value.text != "select") return steps;
  const Syntax& test = value.args[0];
  const bool tests = test.kind == Syntax::Kind::Compare && test.text == "!=" &&
                     is_read(test.args[0]) && test.args[1].text == "0";
  if (tests && is_masked_number(value.args[2])) {
    steps.push_back({test.args[0], value.args[1], MaskStep::ShownWhereSet});
  }
  if (tests && is_masked_number(value.args[1])) {
    steps.push_back({test.args[0], value.args[2], MaskStep::HiddenWhereSet});
  }
  return steps;
}

// The three nodes.
struct Chain {
  size_t scores, softmax, product;
};

class AttentionFuser {
 public:
  explicit AttentionFuser(Graph* graph) : graph_(*graph), makers_(makers_of(*graph)) {}

  int run() {
    int count = 0;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const auto chain = chain_at(n);
      auto node = chain ? fused(*chain) : std::nullopt;
      if (!node) continue;
      graph_.nodes[chain->product] = std::move(*node);  // there, since V was made before
      ++count;
    }
    drop_unused(&graph_);
    return count;
  }

 private:
  // The only node that reads the value, which is no output.
  std::optional<size_t> only_reader(size_t value) const {
    std::optional<size_t> reader;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (const auto& [name, read] : graph_.nodes[n].operands) {
        if (read != value) continue;
        if (reader) return std::nullopt;
        reader = n;
      }
    }
    const bool kept = std::ranges::find(graph_.outputs, value) != graph_.outputs.end();
    return kept ? std::nullopt : reader;
  }

  std::optional<Chain> chain_at(size_t softmax) const {
    const Node& node = graph_.nodes[softmax];
    if (!node.is_workload() || parse_spec(node.spec).op != "softmax") return std::nullopt;
    const size_t scores = node.operands.at("X");
    const auto maker = makers_[scores];
    const auto reader = only_reader(node.output);
    if (!maker || !reader || only_reader(scores) != softmax) return std::nullopt;
    return Chain{*maker, softmax, *reader};
  }

  std::optional<Node> fused(const Chain& chain) {
    auto first = text_of(graph_.nodes[chain.scores]);
    auto second = text_of(graph_.nodes[chain.product]);
    if (!first || !second || !are_functions(*first) || !are_functions(*second)) return std::nullopt;
    prefix(&*first, "s_");
    prefix(&*second, "o_");
    const auto factors = factors_of(&*first), weighted = factors_of(&*second);
    if (!factors || !weighted) return std::nullopt;
    const Indices scores = first->stages.back().axes();
    const int64_t keys = scores.back().second;
    const Workload softmax = parse_workload(graph_.nodes[chain.softmax].spec);
    if (as_int(softmax.output()->shape.back()) != keys || scores.size() < 2) return std::nullopt;
    if (sizes_of(first->stages.front().axes()) != sizes_of(scores)) return std::nullopt;
    // The second product takes the weights of its own row, one for each of the keys.
    const bool weights_first =
        input_of(&*second, weighted->first->text)->value == graph_.nodes[chain.softmax].output;
    Syntax* weights = weights_first ? weighted->first : weighted->second;
    const TextInput* from = input_of(&*second, weights->text);
    if (from->value != graph_.nodes[chain.softmax].output) return std::nullopt;
    const auto own = reshaped(weights->args, from->shape, sizes_of(scores));
    const Stage& sum = second->stages.front();
    if (!own || !is_name(own->back(), sum.indices.back().first)) return std::nullopt;
    for (size_t d = 0; d + 1 < own->size(); ++d) {
      const bool row =
          scores[d].second == 1 || std::ranges::any_of(sum.axes(), [&](const auto& axis) {
            return is_name((*own)[d], axis.first) && axis.second == scores[d].second;
          });
      if (!row) return std::nullopt;
    }
    const std::string probabilities = weights->text;
    weights->text = "P";
    weights->args = *own;
    std::erase_if(second->inputs, [&](const TextInput& i) { return i.name == probabilities; });
    Text text;
    append_scores(&*first, &text);
    multiply_by_reciprocals(&text);
    const bool causal = mask_future(&text);
    append_softmax(causal, &text);
    append_product(std::move(*second), *own, &text);
    return node_of(std::move(text), graph_.nodes[chain.scores].label,
                   graph_.nodes[chain.product].output);
  }

  // The scores, with factors of their operands behind the product.
  void append_scores(Text* first, Text* text) {
    std::vector<std::pair<std::string, Syntax>> factors;
    const auto reads = factors_of(first);
    for (Syntax* read : {reads->first, reads->second}) {
      if (auto factor = factor_of(first, read)) factors.push_back(std::move(*factor));
    }
    *text = std::move(*first);
    if (factors.empty()) return;
    Stage& product = text->stages.front();
    const std::string name = product.statement.target;
    product.statement.target = "S";
    Syntax value = element_at("S", product.axes());
    for (auto& [op, factor] : factors) {
      value = binary_syntax(op, std::move(value), std::move(factor));
    }
    text->stages.insert(text->stages.begin() + 1,
                        stage_over(product.axes(), {}, name, "=", std::move(value)));
  }

  // Reads the element itself of an operand that is computed as an element times a number, and returns the
  // operator and the number.
  std::optional<std::pair<std::string, Syntax>> factor_of(Text* first, Syntax* read) {
    TextInput* operand = input_of(first, read->text);
    const auto maker = makers_[operand->value];
    auto text = maker ? text_of(graph_.nodes[*maker]) : std::nullopt;
    auto value = text ? value_of(*text) : std::nullopt;
    if (!value || value->kind != Syntax::Kind::Binary) return std::nullopt;
    const bool divided = value->text == "/";
    if (!divided && value->text != "*") return std::nullopt;
    const bool swapped = !divided && value->args[0].kind == Syntax::Kind::Number;
    const Syntax element = value->args[swapped ? 1 : 0], number = value->args[swapped ? 0 : 1];
    if (!is_read(element) || number.kind != Syntax::Kind::Number) return std::nullopt;
    Indices axes = text->stages.back().axes();
    const auto place = reshaped(read->args, operand->shape, sizes_of(axes));
    if (!place) return std::nullopt;
    std::map<std::string, Syntax> places;
    for (size_t d = 0; d < axes.size(); ++d) places[axes[d].first] = (*place)[d];
    const TextInput* source = input_of(&*text, element.text);
    read->args = element.args;
    for (Syntax& arg : read->args) substitute(&arg, places);
    operand->value = source->value;
    operand->shape = source->shape;
    operand->elem = source->elem;
    return std::pair{value->text, number};
  }

  // Divisions of scores by numbers as products, which cost little where scores are needed again.
  static void multiply_by_reciprocals(Text* text) {
    for (Stage& stage : text->stages) {
      walk(&stage.statement.value, [](Syntax* s) {
        if (s->kind != Syntax::Kind::Binary || s->text != "/") return;
        if (s->args[1].kind != Syntax::Kind::Number) return;
        const double divisor = std::strtod(s->args[1].text.c_str(), nullptr);
        if (!(divisor > 1e-30 && divisor < 1e30)) return;
        s->text = "*";
        s->args[1].text = fmt::format("{}", 1 / divisor);
      });
    }
  }

  // Whether the last step of the scores hides the keys behind each query's own, and only them; takes it
  // away. Nothing else may change single scores, which could hide the others, too.
  bool mask_future(Text* text) {
    if (text->stages.size() < 2) return false;
    size_t inputs = 0;
    for (Stage& stage : text->stages) {
      walk(&stage.statement.value,
           [&](Syntax* s) { inputs += is_read(*s) && input_of(text, s->text) != nullptr ? 1 : 0; });
    }
    Stage& last = text->stages.back();
    // Queries and keys alone, or a mask besides.
    if (inputs == 2 && hides_by_places(last)) {
      last.statement.value = Syntax(last.statement.value.args[1]);
      return true;
    }
    if (inputs != 3) return false;
    for (const MaskStep& step : mask_steps(last.statement.value)) {
      const TextInput* mask = input_of(text, step.mask.text);
      if (mask == nullptr || !hides_future(*mask, step, last.axes())) continue;
      const std::string name = mask->name;
      std::erase_if(text->inputs, [&](const TextInput& i) { return i.name == name; });
      if (is_element(step.scores, text->stages[text->stages.size() - 2], last.axes())) {
        text->stages.pop_back();
      } else {
        last.statement.value = step.scores;
      }
      return true;
    }
    return false;
  }

  // Whether the stage is select(key <= query, scores, -3.4e38) by the places of its last two axes.
  static bool hides_by_places(const Stage& stage) {
    const Syntax& value = stage.statement.value;
    if (value.kind != Syntax::Kind::Call || value.text != "select") return false;
    const Syntax wanted = if_seen(stage.axes(), value.args[1], value.args[2]);
    return is_masked_number(value.args[2]) && is_same(value.args[0], wanted.args[0]);
  }

  bool hides_future(const TextInput& mask, const MaskStep& step, const Indices& axes) const {
    const Value& v = graph_.values[mask.value];
    const size_t rank = axes.size();
    const int64_t rows = axes[rank - 2].second, keys = axes[rank - 1].second;
    if (!v.constant || v.data == nullptr || v.count() != rows * keys || rows > keys || rows < 2) {
      return false;
    }
    const auto place = reshaped(step.mask.args, mask.shape, {rows, keys});
    if (!place || !is_name((*place)[0], axes[rank - 2].first) ||
        !is_name((*place)[1], axes[rank - 1].first)) {
      return false;
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < keys; ++j) {
        const double element = load_element(v.elem, v.data->data(), i * keys + j);
        const bool fits = j <= i + keys - rows ? step.shows(element) : step.hides(element);
        if (!fits) return false;
      }
    }
    return true;
  }

  // `value` for keys that the query sees.
  static Syntax if_seen(const Indices& axes, Syntax value, Syntax otherwise) {
    const auto& [row, rows] = axes[axes.size() - 2];
    const auto& [key, keys] = axes[axes.size() - 1];
    Syntax limit = name_syntax(row);
    if (keys != rows) limit = binary_syntax("+", std::move(limit), number_syntax(keys - rows));
    return select_syntax("<=", name_syntax(key), std::move(limit), std::move(value),
                         std::move(otherwise));
  }

  static void append_softmax(bool causal, Text* text) {
    const Indices axes = text->stages.back().axes(), rows(axes.begin(), axes.end() - 1),
                  key = {axes.back()};
    std::string scores = text->stages.back().statement.target;
    auto add = [&](const Indices& over, const Indices& reduced, const std::string& target,
                   const std::string& assignment, Syntax value) {
      text->stages.push_back(stage_over(over, reduced, target, assignment, std::move(value)));
    };
    if (causal) {
      add(axes, {}, "Z", "=", if_seen(axes, element_at(scores, axes), least()));
      scores = "Z";
    }
    add(rows, key, "M", "max=", element_at(scores, axes));
    Syntax weight =
        call_syntax("exp", {binary_syntax("-", element_at(scores, axes), element_at("M", rows))});
    if (causal) weight = if_seen(axes, std::move(weight), number_syntax(0));
    add(axes, {}, "P", "=", std::move(weight));
    add(rows, key, "L", "+=", element_at("P", axes));
  }

  // The product, divided by the sums of the weights, and what follows it.
  static void append_product(Text second, const std::vector<Syntax>& weights, Text* text) {
    Stage& product = second.stages.front();
    const std::string name = product.statement.target;
    product.statement.target = "O";
    const std::vector<Syntax> row(weights.begin(), weights.end() - 1);
    Stage mean =
        stage_over(product.axes(), {}, name, "=",
                   binary_syntax("/", element_at("O", product.axes()), read_syntax("L", row)));
    second.stages.insert(second.stages.begin() + 1, std::move(mean));
    text->inputs.insert(text->inputs.end(), second.inputs.begin(), second.inputs.end());
    for (Stage& stage : second.stages) text->stages.push_back(std::move(stage));
  }

  Graph& graph_;
  const std::vector<std::optional<size_t>> makers_;  // a fused node stands where its product was
};

}  // namespace

int fuse_attention(Graph* graph) { return AttentionFuser(graph).run(); }

}  // namespace tilewright::graph
