#include "graph/precision/codes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>
#include <utility>

#include "graph/precision/ordered.h"
#include "graph/statements.h"
#include "models/onnx/whole/codes.h"
#include "models/weights/quantize.h"

namespace tilewright::graph {
namespace {

using ops::Syntax;

constexpr int64_t kLeastEncoded = 32;  // of a sum that is worth quantizing what is calculated
constexpr int kMostCode = 127;         // of either sign

// Axes of an input, each with the index of the result that runs along it.
struct KeptAxes {
  std::vector<size_t> axes;
  std::vector<std::string> indices;
};

// Axes along which a product's factor is read at one place for each place of the result.
KeptAxes kept_axes(const Text& text, const Product& product, const Factor& factor, size_t side) {
  const Stage& stage = text.stages[product.stage];
  const Syntax& read = stage.statement.value.args[side];
  const Indices left = stage.axes();
  const Stage* padding = factor.padding ? &text.stages[*factor.padding] : nullptr;
  KeptAxes kept;
  for (size_t d = 0; d < read.args.size(); ++d) {
    const bool plain = std::ranges::any_of(
        left, [&](const auto& index) { return is_name(read.args[d], index.first); });
    const bool same = padding == nullptr ||
                      is_name(copied_by(*padding)->args[d], padding->statement.indices[d].text);
    if (!plain || !same) continue;
    kept.axes.push_back(d);
    kept.indices.push_back(read.args[d].text);
  }
  return kept;
}

// A stage of this text with these indices on the left and those that it reduces.
Stage parsed_stage(const std::string& text, const Indices& left, const Indices& reduced,
                   ElemType elem) {
  Stage stage;
  stage.statement = ops::parse_statements(text).at(0);
  stage.indices = left;
  stage.indices.insert(stage.indices.end(), reduced.begin(), reduced.end());
  stage.elem = elem;
  return stage;
}

std::string names_of(const Indices& indices) {
  std::vector<std::string> names;
  for (const auto& [name, size] : indices) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Codes of what is calculated. Its scale is a value of the graph, or a number.
struct Encoded {
  size_t codes = 0;
  std::optional<size_t> scale;
  double number = 1;
};

struct EncodedWeight {
  size_t codes = 0;
  std::vector<float> scales;  // one for each place along its kept axes
};

class Encoder {
 public:
  Encoder(Graph* graph, const Ranges* ranges, const Kept& kept)
      : graph_(*graph), ranges_(ranges), kept_(kept) {
    for (const Value& v : graph_.values) names_.insert(v.name);
  }

  Changed run() {
    Changed changed;
    for (Node& node : std::exchange(graph_.nodes, {})) {
      const std::string name = graph_.values[node.output].name;
      std::optional<Node> encoded;
      if (!kept_.contains(name)) encoded = encoded_node(node, &changed);
      if (encoded) changed.outputs.push_back(name);
      graph_.nodes.push_back(std::move(encoded ? *encoded : node));
    }
    return changed;
  }

 private:
  std::optional<Node> encoded_node(const Node& node, Changed* changed) {
    std::optional<Text> text = typed_text_of(node);
    if (!text) return std::nullopt;
    const std::vector<Product> products = weighted(*text, kLeastEncoded);
    if (products.empty()) {
      changed->others += weighted(*text, 1).empty() ? 0 : 1;
      return std::nullopt;
    }
    // From the last one, since each adds a stage behind it.
    for (size_t p = products.size(); p-- > 0;) encode(&*text, products[p], node);
    drop_unread(&*text);
    return node_of(std::move(*text), node.label, node.output);
  }

  // Products with a constant factor.
  std::vector<Product> weighted(const Text& text, int64_t least_terms) const {
    std::vector<Product> products = products_of(graph_, text, least_terms);
    std::erase_if(products, [&](const Product& p) { return !weight_side(text, p); });
    return products;
  }

  // The factor that is a constant, 0 or 1. Nothing where none is, or where it is padded.
  std::optional<size_t> weight_side(const Text& text, const Product& p) const {
    const auto constant = [&](const Factor& f) {
      return graph_.values[text.inputs[f.input].value].data != nullptr && !f.padding;
    };
    if (constant(p.a) == constant(p.b)) return std::nullopt;
    return constant(p.a) ? 0 : 1;
  }

  void encode(Text* text, const Product& product, const Node& node) {
    const size_t side = *weight_side(*text, product);
    const Factor& weight = side == 0 ? product.a : product.b;
    const Factor& other = side == 0 ? product.b : product.a;
    const KeptAxes columns = kept_axes(*text, product, weight, side);
    const KeptAxes rows = kept_axes(*text, product, other, 1 - side);
    const TextInput wide = text->inputs[weight.input], read = text->inputs[other.input];
    const Encoded calculated = encoded_value(read, rows.axes, node.label);
    const EncodedWeight& constant = encoded_weight(wide, columns.axes);
    const size_t scales = scales_times(constant, calculated.number, node);
    read_codes(text, product.stage, other, calculated.codes, false);
    read_codes(text, product.stage, weight, constant.codes, true);
    Syntax factor = scale_at(text, scales, wide, columns);
    std::optional<Syntax> more;
    if (calculated.scale) more = scale_at(text, *calculated.scale, read, rows);
    rescale(text, product.stage, std::move(factor), std::move(more));
  }

  void read_codes(Text* text, size_t stage, const Factor& factor, size_t codes, bool weight) const {
    TextInput input = text->inputs[factor.input];
    input.value = codes;
    input.elem = graph_.values[codes].elem;
    input.weight = weight;
    read_instead(text, stage, factor, std::move(input));
  }

  // The scale of an input's elements at the place of the result, as an input of its own.
  static Syntax scale_at(Text* text, size_t scale, const TextInput& of, const KeptAxes& kept) {
    const std::string name = fmt::format("s{}_{}", text->inputs.size(), of.name);
    text->inputs.push_back({name, scale, scale_shape(of.shape, kept.axes), ElemType::f32, false});
    std::vector<Syntax> at;
    for (const std::string& index : kept.indices) at.push_back(name_syntax(index));
    if (at.empty()) at.push_back(number_syntax(0));
    return read_syntax(name, std::move(at));
  }

  static Shape scale_shape(const Shape& shape, const std::vector<size_t>& axes) {
    Shape sizes;
    for (size_t d : axes) sizes.push_back(shape[d]);
    return axes.empty() ? Shape{1} : sizes;
  }

  // The stage sums codes, and one behind it makes its result of them.
  static void rescale(Text* text, size_t stage, Syntax factor, std::optional<Syntax> more) {
    Stage& sums = text->stages[stage];
    const std::string result = sums.statement.target;
    sums.statement.target = "s_" + result;
    sums.elem = ElemType::i32;
    Syntax value = binary_syntax("*", element_at(sums.statement.target, sums.axes()), factor);
    if (more) value = binary_syntax("*", std::move(value), std::move(*more));
    Stage scaled = stage_over(sums.axes(), {}, result, "=", std::move(value));
    text->stages.insert(text->stages.begin() + static_cast<int64_t>(stage) + 1, std::move(scaled));
  }

  const EncodedWeight& encoded_weight(const TextInput& input, const std::vector<size_t>& kept) {
    auto [known, fresh] = weights_.try_emplace({input.value, input.shape, kept});
    EncodedWeight& weight = known->second;
    if (!fresh) return weight;
    const Value from = graph_.values[input.value];
    std::vector<float> rows;
    rows.reserve(static_cast<size_t>(from.count()));
    for_each_ordered(input.shape, kept, [&](int64_t place) {
      float element = 0;
      std::memcpy(&element, from.data->data() + place * static_cast<int64_t>(sizeof element),
                  sizeof element);
      rows.push_back(element);
    });
    int64_t count = 1;
    for (int64_t size : scale_shape(input.shape, kept)) count *= size;
    const int64_t k = from.count() / count;
    weights::RowCodes made = weights::quantize(rows, k, ElemType::i8, k);
    auto data = std::make_shared<std::string>(static_cast<size_t>(from.count()), '\0');
    size_t next = 0;
    for_each_ordered(input.shape, kept, [&](int64_t place) {
      (*data)[static_cast<size_t>(place)] = static_cast<char>(made.codes[next++]);
    });
    weight.codes =
        graph_.add({fresh_name(from.name + "/i8", &names_), ElemType::i8, from.shape, true, data});
    weight.scales = std::move(made.scales);
    return weight;
  }

  // The scales of a weight, times a known one of the other factor.
  size_t scales_times(const EncodedWeight& weight, double number, const Node& node) {
    auto data = std::make_shared<std::string>(weight.scales.size() * sizeof(float), '\0');
    for (size_t i = 0; i < weight.scales.size(); ++i) {
      const float scale = weight.scales[i] * static_cast<float>(number);
      std::memcpy(data->data() + i * sizeof scale, &scale, sizeof scale);
    }
    return graph_.add({fresh_name(graph_.values[node.output].name + "/weight_scale", &names_),
                       ElemType::f32,
                       {static_cast<int64_t>(weight.scales.size())},
                       true,
                       data});
  }

  const Encoded& encoded_value(const TextInput& input, const std::vector<size_t>& kept,
                               const std::string& label) {
    const auto axes = ranges_ == nullptr ? kept : std::vector<size_t>{};
    auto [known, fresh] = values_.try_emplace({input.value, input.shape, axes});
    if (!fresh) return known->second;
    known->second =
        ranges_ == nullptr ? encoded_in_runs(input, kept, label) : encoded_by_range(input, label);
    return known->second;
  }

  Encoded encoded_by_range(const TextInput& input, const std::string& label) {
    const Extremes range = ranges_->at(graph_.values[input.value].name);
    const bool negative = range.least < 0;
    const double most = std::max(-range.least, range.most);
    Encoded made;
    made.number = most == 0 ? 1 : most / (negative ? kMostCode : 255);
    const Indices all = indices_over(input.shape);
    const std::string code =
        fmt::format("round(X[{}] * {})", names_of(all), onnx::literal(1 / made.number));
    made.codes = add_codes(input, {}, all, code, negative ? ElemType::i8 : ElemType::u8, label, {});
    return made;
  }

  Encoded encoded_in_runs(const TextInput& input, const std::vector<size_t>& kept,
                          const std::string& label) {
    const Indices all = indices_over(input.shape);
    Indices rows, rest;
    for (size_t d = 0; d < all.size(); ++d) {
      (std::ranges::find(kept, d) == kept.end() ? rest : rows).push_back(all[d]);
    }
    const std::string at = rows.empty() ? "0" : names_of(rows);
    if (rows.empty()) rows = {{"z", 1}};
    const std::string own = names_of(rows);
    Text text;
    text.inputs.push_back({"X", input.value, input.shape, input.elem, false});
    text.stages.push_back(parsed_stage(fmt::format("H[{}] max= abs(X[{}])", own, names_of(all)),
                                       rows, rest, ElemType::f32));
    text.stages.push_back(
        parsed_stage(fmt::format("S[{0}] = select(H[{0}] == 0, 1, H[{0}] / {1})", own, kMostCode),
                     rows, {}, ElemType::f32));
    Encoded made;
    made.scale =
        add_node(std::move(text), fresh_name(graph_.values[input.value].name + "/scale", &names_),
                 ElemType::f32, scale_shape(input.shape, kept), label);
    const Stage inverse =
        parsed_stage(fmt::format("T[{0}] = 1 / S[{0}]", own), rows, {}, ElemType::f32);
    const TextInput scale{"S", *made.scale, scale_shape(input.shape, kept), ElemType::f32, false};
    made.codes =
        add_codes(input, {inverse}, all, fmt::format("round(X[{}] * T[{}])", names_of(all), at),
                  ElemType::i8, label, {scale});
    return made;
  }

  // The node that computes the codes, behind stages of its own.
  size_t add_codes(const TextInput& input, std::vector<Stage> stages, const Indices& all,
                   const std::string& code, ElemType elem, const std::string& label,
                   const std::vector<TextInput>& more) {
    Text text;
    text.inputs.push_back({"X", input.value, input.shape, input.elem, false});
    text.inputs.insert(text.inputs.end(), more.begin(), more.end());
    text.stages = std::move(stages);
    text.stages.push_back(parsed_stage(
        fmt::format("Y[{}] = {}", names_of(all), onnx::within_limits(elem, code)), all, {}, elem));
    const Value& from = graph_.values[input.value];
    return add_node(std::move(text),
                    fresh_name(fmt::format("{}/{}", from.name, to_string(elem)), &names_), elem,
                    from.shape, label);
  }

  size_t add_node(Text text, const std::string& name, ElemType elem, const Shape& shape,
                  const std::string& label) {
    const size_t output = graph_.add({name, elem, shape});
    auto node = node_of(std::move(text), label, output);
    if (!node) throw GraphError("no codes of " + name);
    graph_.nodes.push_back(std::move(*node));
    return output;
  }

  using Key = std::tuple<size_t, Shape, std::vector<size_t>>;
  Graph& graph_;
  const Ranges* ranges_;
  const Kept& kept_;
  std::set<std::string> names_;
  std::map<Key, Encoded> values_;
  std::map<Key, EncodedWeight> weights_;
};

}  // namespace

Changed encode_products(Graph* graph, const Ranges* ranges, const Kept& kept) {
  return Encoder(graph, ranges, kept).run();
}

}  // namespace tilewright::graph
