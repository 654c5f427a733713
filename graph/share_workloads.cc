#include "graph/share_workloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "graph/statements.h"
#include "ir/ops/spec.h"
#include "runtime/tensor/element.h"

namespace tilewright::graph {
namespace {

using ops::Syntax;

bool is_number(const Syntax& s) {
  if (s.kind == Syntax::Kind::Negate) return is_number(s.args[0]);
  return s.kind == Syntax::Kind::Number;
}

struct Number {
  Syntax* at;
  ElemType elem;  // of the stage that calculates with it
};

// Appends the numbers that a value calculates with, those of indices and comparisons left out. False where
// it calculates with an index.
bool add_numbers(Syntax* s, ElemType elem, std::vector<Number>* numbers) {
  if (is_read(*s) || s->kind == Syntax::Kind::Compare) return true;
  if (is_number(*s)) {
    numbers->push_back({s, elem});
    return true;
  }
  return s->kind != Syntax::Kind::Name && std::ranges::all_of(s->args, [&](Syntax& arg) {
           return add_numbers(&arg, elem, numbers);
         });
}

std::vector<Number> numbers_of(Text* text) {
  std::vector<Number> numbers;
  for (Stage& stage : text->stages) {
    if (!stage.is_function()) continue;
    if (!add_numbers(&stage.statement.value, stage.elem, &numbers)) return {};
  }
  return numbers;
}

// "-0.5".
std::string spelled_number(const Syntax& number) {
  return number.kind == Syntax::Kind::Negate ? "-" + spelled_number(number.args[0]) : number.text;
}

std::optional<Text> expression_of(const Node& node) {
  if (!node.is_workload() || parse_spec(node.spec).op != "expr") return std::nullopt;
  return typed_text_of(node);
}

std::optional<std::string> blank_spec(const Node& node) {
  std::optional<Text> text = expression_of(node);
  if (!text) return std::nullopt;
  for (const Number& number : numbers_of(&*text)) *number.at = number_syntax(1);
  const auto blank = node_of(std::move(*text), "", node.output);
  return blank ? std::optional(blank->spec) : std::nullopt;
}

// The nodes whose texts are the same but for their numbers.
std::map<std::string, std::vector<size_t>> nodes_by_blank(const Graph& graph) {
  std::map<std::string, std::vector<size_t>> groups;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (const auto blank = blank_spec(graph.nodes[n])) groups[*blank].push_back(n);
  }
  return groups;
}

// The places at which some of the nodes have other numbers than others.
std::set<size_t> differences(const std::vector<std::vector<std::string>>& numbers) {
  std::set<size_t> places;
  for (const auto& own : numbers) {
    for (size_t p = 0; p < own.size(); ++p) {
      if (own[p] != numbers[0][p]) places.insert(p);
    }
  }
  return places;
}

std::vector<std::string> texts_of(const std::vector<Number>& numbers) {
  std::vector<std::string> texts;
  for (const Number& number : numbers) texts.push_back(spelled_number(*number.at));
  return texts;
}

// The type of constants for these numbers: that of their stage where it holds all of them, so that stages of
// integers stay such.
ElemType type_for(ElemType stage, const std::vector<std::vector<std::string>>& numbers,
                  size_t place) {
  const bool held = is_integer(stage) && std::ranges::all_of(numbers, [&](const auto& own) {
                      const double number = std::strtod(own[place].c_str(), nullptr);
                      return round_to(stage, number) == number;
                    });
  return held ? stage : ElemType::f32;
}

// The node with constants in the place of its numbers at these places.
std::optional<Node> with_constants(Graph* graph, const Node& node,
                                   const std::vector<std::vector<std::string>>& all) {
  Text text = *expression_of(node);
  const std::vector<Number> numbers = numbers_of(&text);
  for (size_t place : differences(all)) {
    const std::string number = spelled_number(*numbers[place].at);
    const ElemType elem = type_for(numbers[place].elem, all, place);
    Value constant{fmt::format("{}/{}", graph->values[node.output].name, number), elem, {1}, true};
    while (std::ranges::find(graph->values, constant.name, &Value::name) != graph->values.end()) {
      constant.name += "'";
    }
    std::string data(static_cast<size_t>(constant.bytes()), '\0');
    store_element(elem, data.data(), 0, std::strtod(number.c_str(), nullptr));
    constant.data = std::make_shared<const std::string>(std::move(data));
    const std::string name = fmt::format("number{}", place);
    text.inputs.push_back({name, graph->add(std::move(constant)), {1}, elem, false});
    *numbers[place].at = read_syntax(name, {number_syntax(0)});
  }
  return node_of(std::move(text), node.label, node.output);
}

}  // namespace

std::string spec_without_numbers(const Node& node) { return blank_spec(node).value_or(node.spec); }

int share_workloads(Graph* graph) {
  int count = 0;
  for (const auto& [blank, group] : nodes_by_blank(*graph)) {
    std::set<std::string> specs;
    std::vector<std::vector<std::string>> numbers;
    for (size_t n : group) {
      specs.insert(graph->nodes[n].spec);
      Text text = *expression_of(graph->nodes[n]);
      numbers.push_back(texts_of(numbers_of(&text)));
    }
    if (specs.size() < 2) continue;
    Graph changed = *graph;
    bool all = true;
    for (size_t n : group) {
      auto node = with_constants(&changed, changed.nodes[n], numbers);
      all = all && node;
      if (node) changed.nodes[n] = std::move(*node);
    }
    if (!all) continue;
    *graph = std::move(changed);
    count += static_cast<int>(specs.size()) - 1;
  }
  return count;
}

}  // namespace tilewright::graph
