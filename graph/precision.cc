#include "graph/precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "graph/statements.h"

namespace tilewright::graph {
namespace {

using ops::Syntax;

constexpr int64_t kLeastTerms = 8;  // of a sum that is worth conversions of its factors

// An element of an input that a product takes as it is, perhaps through a stage that pads.
struct Factor {
  size_t input = 0;
  std::optional<size_t> padding;  // a stage
};

// The read of a stage that copies: an element, or zero outside of a window.
const Syntax* copied(const Stage& stage) {
  const Syntax& value = stage.statement.value;
  if (stage.statement.assignment != "=") return nullptr;
  if (is_read(value)) return &value;
  const bool pads = value.kind == Syntax::Kind::Call && value.text == "select" &&
                    is_read(value.args[1]) && is_zero(value.args[2]);
  return pads ? &value.args[1] : nullptr;
}

std::optional<size_t> input_named(const Text& text, const std::string& name) {
  for (size_t i = 0; i < text.inputs.size(); ++i) {
    if (text.inputs[i].name == name) return i;
  }
  return std::nullopt;
}

std::optional<Factor> factor_of(const Text& text, const Syntax& read) {
  if (!is_read(read)) return std::nullopt;
  Factor factor;
  std::optional<size_t> input = input_named(text, read.text);
  for (size_t s = 0; !input && s < text.stages.size(); ++s) {
    if (text.stages[s].statement.target != read.text || reads_of(text, read.text) != 1) continue;
    const Syntax* from = copied(text.stages[s]);
    if (from == nullptr) return std::nullopt;
    input = input_named(text, from->text);
    factor.padding = s;
  }
  if (!input || text.inputs[*input].elem != ElemType::f32) return std::nullopt;
  factor.input = *input;
  return factor;
}

class Narrower {
 public:
  Narrower(Graph* graph, ElemType type) : graph_(*graph), type_(type) {}

  int run() {
    int count = 0;
    for (Node& node : std::exchange(graph_.nodes, {})) {
      std::optional<Text> text = typed_text_of(node);
      std::optional<Node> narrowed;
      if (text && narrow(&*text, node.label)) {
        narrowed = node_of(std::move(*text), node.label, node.output);
      }
      count += narrowed ? 1 : 0;
      graph_.nodes.push_back(std::move(narrowed ? *narrowed : node));
    }
    return count;
  }

 private:
  bool narrow(Text* text, const std::string& label) {
    bool any = false;
    for (size_t s = 0; s < text->stages.size(); ++s) {
      const Syntax value = text->stages[s].statement.value;
      const bool multiplies = text->stages[s].statement.assignment == "+=" &&
                              value.kind == Syntax::Kind::Binary && value.text == "*";
      if (!multiplies) continue;
      const auto a = factor_of(*text, value.args[0]), b = factor_of(*text, value.args[1]);
      if (!a || !b || !pays(*text, text->stages[s], *a, *b)) continue;
      // Both are read here, or by the stages that pad them; inputs keep their places.
      take(text, s, *a, label);
      take(text, s, *b, label);
      any = true;
    }
    std::erase_if(text->inputs, [&](const TextInput& i) { return reads_of(*text, i.name) == 0; });
    return any;
  }

  // Whether elements of both factors are read several times, or those of a constant once.
  bool pays(const Text& text, const Stage& stage, const Factor& a, const Factor& b) const {
    const size_t left = stage.statement.indices.size();
    int64_t terms = 1;
    for (size_t i = left; i < stage.indices.size(); ++i) terms *= stage.indices[i].second;
    auto again = [&](size_t side) {
      std::set<std::string> used;
      Syntax read = stage.statement.value.args[side];
      walk(&read, [&](Syntax* s) {
        if (s->kind == Syntax::Kind::Name) used.insert(s->text);
      });
      const auto end = stage.indices.begin() + static_cast<int64_t>(left);
      return std::any_of(stage.indices.begin(), end, [&](const auto& index) {
        return index.second > 1 && !used.contains(index.first);
      });
    };
    auto constant = [&](const Factor& f) {
      return graph_.values[text.inputs[f.input].value].constant;
    };
    return terms >= kLeastTerms && (again(0) || constant(a)) && (again(1) || constant(b)) &&
           (again(0) || again(1));
  }

  // Makes the product read the converted value, in an input of its own.
  void take(Text* text, size_t product, const Factor& factor, const std::string& label) {
    TextInput input = text->inputs[factor.input];
    const std::string wide = input.name;
    input.name = "n_" + wide;
    input.elem = type_;
    input.value = converted(input.value, label);
    Stage& reader = text->stages[factor.padding.value_or(product)];
    rename_tensors(&reader, {{wide, input.name}});
    if (factor.padding) reader.elem = type_;
    if (!input_named(*text, input.name)) text->inputs.push_back(std::move(input));
  }

  size_t converted(size_t value, const std::string& label) {
    auto [known, fresh] = converted_.emplace(value, graph_.values.size());
    if (!fresh) return known->second;
    const Value from = graph_.values[value];
    Value made{.name = fmt::format("{}/{}", from.name, to_string(type_)),
               .elem = type_,
               .shape = from.shape};
    Text text;
    const Indices axes = indices_over(from.shape);
    Stage stage = stage_over(axes, {}, "Y", "=", element_at("X", axes));
    stage.elem = type_;
    text.stages.push_back(std::move(stage));
    text.inputs.push_back({"X", value, from.shape, from.elem, false});
    auto node = node_of(std::move(text), label, graph_.add(std::move(made)));
    if (!node) throw GraphError("no conversion of " + from.name);
    graph_.nodes.push_back(std::move(*node));
    return known->second;
  }

  Graph& graph_;
  ElemType type_;
  std::map<size_t, size_t> converted_;
};

}  // namespace

int narrow_products(Graph* graph, ElemType type) { return Narrower(graph, type).run(); }

}  // namespace tilewright::graph
