#include "graph/precision/products.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/sizes.h"

namespace tilewright::graph {
namespace {

using ops::Syntax;

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
    const Syntax* from = copied_by(text.stages[s]);
    if (from == nullptr) return std::nullopt;
    input = input_named(text, from->text);
    factor.padding = s;
  }
  if (!input || text.inputs[*input].elem != ElemType::f32) return std::nullopt;
  factor.input = *input;
  return factor;
}

// Whether elements of both factors are read several times, or those of a constant once. Factors whose sizes plain
// nodes say have no elements of a sample to be compared on.
bool pays(const Graph& graph, const Text& text, const Product& product, int64_t least_terms) {
  const Stage& stage = text.stages[product.stage];
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
    return graph.values[text.inputs[f.input].value].constant;
  };
  const auto is_found = [&](const TextInput& input) {
    return depends_on_values(graph, graph.values[input.value]);
  };
  if (std::ranges::any_of(text.inputs, is_found)) return false;
  return terms >= least_terms && (again(0) || constant(product.a)) &&
         (again(1) || constant(product.b)) && (again(0) || again(1));
}

}  // namespace

const Syntax* copied_by(const Stage& stage) {
  const Syntax& value = stage.statement.value;
  if (stage.statement.assignment != "=") return nullptr;
  if (is_read(value)) return &value;
  const bool pads = value.kind == Syntax::Kind::Call && value.text == "select" &&
                    is_read(value.args[1]) && is_zero(value.args[2]);
  return pads ? &value.args[1] : nullptr;
}

std::vector<Product> products_of(const Graph& graph, const Text& text, int64_t least_terms) {
  std::vector<Product> products;
  for (size_t s = 0; s < text.stages.size(); ++s) {
    const Syntax& value = text.stages[s].statement.value;
    const bool multiplies = text.stages[s].statement.assignment == "+=" &&
                            text.stages[s].elem == ElemType::f32 &&
                            value.kind == Syntax::Kind::Binary && value.text == "*";
    if (!multiplies) continue;
    const auto a = factor_of(text, value.args[0]), b = factor_of(text, value.args[1]);
    if (!a || !b) continue;
    const Product product{s, *a, *b};
    if (pays(graph, text, product, least_terms)) products.push_back(product);
  }
  return products;
}

void read_instead(Text* text, size_t product, const Factor& factor, TextInput input) {
  const std::string wide = input.name;
  input.name = "n_" + wide;
  Stage& reader = text->stages[factor.padding.value_or(product)];
  rename_tensors(&reader, {{wide, input.name}});
  if (factor.padding) reader.elem = input.elem;
  if (!input_named(*text, input.name)) text->inputs.push_back(std::move(input));
}

std::string fresh_name(const std::string& wanted, std::set<std::string>* names) {
  std::string name = wanted;
  for (int i = 2; !names->insert(name).second; ++i) name = fmt::format("{}{}", wanted, i);
  return name;
}

void drop_unread(Text* text) {
  std::erase_if(text->inputs, [&](const TextInput& i) { return reads_of(*text, i.name) == 0; });
}

}  // namespace tilewright::graph
