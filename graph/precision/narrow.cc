#include "graph/precision/narrow.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "graph/precision/products.h"
#include "graph/statements.h"

namespace tilewright::graph {
namespace {

constexpr int64_t kLeastNarrowed = 8;  // of a sum that is worth conversions of its factors

class Narrower {
 public:
  Narrower(Graph* graph, ElemType type, const Kept& kept)
      : graph_(*graph), type_(type), kept_(kept) {}

  Changed run() {
    Changed changed;
    for (Node& node : std::exchange(graph_.nodes, {})) {
      std::optional<Text> text = typed_text_of(node);
      std::optional<Node> narrowed;
      const std::string name = graph_.values[node.output].name;
      if (text && !kept_.contains(name) && narrow(&*text, node.label)) {
        narrowed = node_of(std::move(*text), node.label, node.output);
      }
      if (narrowed) changed.outputs.push_back(name);
      graph_.nodes.push_back(std::move(narrowed ? *narrowed : node));
    }
    return changed;
  }

 private:
  bool narrow(Text* text, const std::string& label) {
    const std::vector<Product> products = products_of(graph_, *text, kLeastNarrowed);
    for (const Product& p : products) {
      // Both are read here, or by the stages that pad them; inputs keep their places.
      take(text, p.stage, p.a, label);
      take(text, p.stage, p.b, label);
    }
    drop_unread(text);
    return !products.empty();
  }

  // Makes the product read the converted value, in an input of its own.
  void take(Text* text, size_t product, const Factor& factor, const std::string& label) {
    TextInput input = text->inputs[factor.input];
    input.elem = type_;
    input.value = converted(input.value, label);
    read_instead(text, product, factor, std::move(input));
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
  const Kept& kept_;
  std::map<size_t, size_t> converted_;
};

}  // namespace

Changed narrow_products(Graph* graph, ElemType type, const Kept& kept) {
  return Narrower(graph, type, kept).run();
}

}  // namespace tilewright::graph
