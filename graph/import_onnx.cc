#include "graph/import_onnx.h"

#include <fmt/format.h>

#include <set>

#include "base/utf8.h"
#include "graph/sizes.h"
#include "models/onnx/layers.h"
#include "runtime/tensor/element.h"
#include "runtime/tensor/operands.h"

namespace tilewright::graph {
namespace {

constexpr size_t kMostNamed = 20;  // nodes in a message

std::optional<ElemType> stored_type(onnx::DataType type) {
  auto elem = onnx::elem_type(type);
  return elem == ElemType::boolean ? ElemType::u8 : elem;
}

Bytes tensor_data(const onnx::Tensor& tensor, ElemType elem) {
  if (!tensor.raw.empty()) return std::make_shared<std::string>(tensor.raw);
  auto data =
      std::make_shared<std::string>(static_cast<size_t>(bytes_for(elem, tensor.count)), '\0');
  for (int64_t i = 0; i < tensor.count; ++i) {
    if (elem == ElemType::i64 || elem == ElemType::u64) {
      const int64_t value = tensor.whole_at(i);
      data->replace(static_cast<size_t>(i) * sizeof value, sizeof value,
                    reinterpret_cast<const char*>(&value), sizeof value);
    } else {
      store_element(elem, data->data(), i, tensor.at(i));
    }
  }
  return data;
}

Bytes number_data(ElemType elem, const std::vector<double>& values) {
  const auto count = static_cast<int64_t>(values.size());
  auto data = std::make_shared<std::string>(static_cast<size_t>(bytes_for(elem, count)), '\0');
  for (int64_t i = 0; i < count; ++i) {
    store_element(elem, data->data(), i, values[static_cast<size_t>(i)]);
  }
  return data;
}

// Makes values on demand, beginning with the outputs, so that nothing is imported that none needs.
class Importer {
 public:
  Importer(const onnx::Model& model, const onnx::Graph& source, const onnx::Layers& layers)
      : model_(model), source_(source) {
    for (const onnx::Layer& layer : layers.layers) {
      if (!layer.output.empty()) makers_.emplace(to_utf8(layer.output), &layer);
      for (const onnx::MadeConstant& made : layer.made) made_.emplace(to_utf8(made.name), &made);
    }
    for (const onnx::LeftOut& l : layers.left_out) left_out_.emplace(l.node, l.reason);
    for (const onnx::NamedSize& size : extents().named()) {
      graph_.dims.push_back({to_utf8(size.name), size.range, size.stand_in});
    }
  }

  Graph import() {
    graph_.name = to_utf8(model_.graph_name.empty() ? model_.path : model_.graph_name);
    if (graph_.dims.size() > kMostDims) {
      throw GraphError(
          fmt::format("{}: {} dimensions have ranges; at most {} may, and the others one size each",
                      to_utf8(model_.path), graph_.dims.size(), kMostDims));
    }
    for (const onnx::DeclaredValue& input : model_.inputs) add_input(input);
    for (const onnx::DeclaredValue& output : model_.outputs) need(output.name);
    if (!refused_.empty()) throw_refused();
    for (const onnx::DeclaredValue& output : model_.outputs) {
      graph_.outputs.push_back(places_.at(to_utf8(output.name)));
    }
    return std::move(graph_);
  }

 private:
  // The layer that makes a value; none for inputs and constants.
  struct Source {
    const onnx::Layer* layer = nullptr;
    const onnx::Node* view = nullptr;
    std::vector<std::string> reads;
  };

  onnx::Extents& extents() const { return source_.values().extents(); }

  // With stand-ins for dimensions that have ranges. Nothing for a shape that is not known, or that a
  // dimension determines in another way than as a factor.
  std::optional<Shape> shape_of(const onnx::Value& value) const {
    if (!value.shape) return std::nullopt;
    Shape sizes;
    for (const onnx::Extent& e : *value.shape) {
      const auto size = extents().stand_in(e);
      const bool taken = size && e.fixed() && !graph_.dims.empty() && onnx::has_stand_in(*size);
      if (!size || *size < 1 || taken) return std::nullopt;
      sizes.push_back(*size);
    }
    return sizes;
  }

  void add_input(const onnx::DeclaredValue& input) {
    const onnx::Value& known = source_.value(input.name);
    auto elem = stored_type(known.type);
    auto shape = shape_of(known);
    if (!elem || !shape) {
      refuse("input " + to_utf8(input.name), "its type or its shape is not known");
      return;
    }
    place(to_utf8(input.name), {to_utf8(input.name), *elem, *shape});
    graph_.inputs.push_back(places_.at(to_utf8(input.name)));
  }

  void place(const std::string& name, Value value) {
    places_.emplace(name, graph_.add(std::move(value)));
  }

  void refuse(const std::string& node, const std::string& reason) {
    refused_.emplace(node, reason);
  }

  // Whether the value is a constant of the model, or a number that was inferred; adds it.
  bool add_constant(const std::string& name) {
    if (auto made = made_.find(name); made != made_.end()) {
      const onnx::MadeConstant& m = *made->second;
      place(name, {name, m.elem, m.shape, true, number_data(m.elem, m.values)});
      return true;
    }
    const onnx::Value& known = source_.value(name);
    auto elem = stored_type(known.type);
    auto shape = shape_of(known);
    if (!elem || !shape) return false;
    if (known.tensor != nullptr && known.tensor->readable() && known.tensor->count > 0) {
      place(name, {name, *elem, *shape, true, tensor_data(*known.tensor, *elem)});
      return true;
    }
    if (known.real) {
      place(name, {name, *elem, *shape, true, number_data(*elem, {*known.real})});
      return true;
    }
    if (!known.contents || places_.contains(name)) return false;
    std::vector<double> numbers;
    for (const onnx::Extent& e : *known.contents) {
      if (!e.fixed()) return false;
      numbers.push_back(static_cast<double>(e.number()));
    }
    place(name, {name, *elem, *shape, true, number_data(*elem, numbers)});
    return true;
  }

  // How the value is calculated; without reads where it cannot be, which is noted.
  Source source_of(const std::string& name) {
    if (auto maker = makers_.find(name); maker != makers_.end()) {
      Source s{maker->second, nullptr, {}};
      for (const auto& [operand, value] : maker->second->operands) s.reads.push_back(value);
      return s;
    }
    const onnx::Node* node = source_.producer(name);
    const auto shown = node == nullptr ? std::nullopt : onnx::shown_value(source_, *node, name);
    if (shown) return {nullptr, node, {*shown}};
    if (node == nullptr) {
      const onnx::Value& known = source_.value(name);
      const bool away = known.tensor != nullptr && known.tensor->external;
      refuse(name.empty() ? "an input that is left out" : name,
             away ? "the file that holds it is not there" : "no node makes it");
      return {};
    }
    auto why = left_out_.find(node);
    refuse(fmt::format("{} ({})", to_utf8(node->label()), to_utf8(node->full_op())),
           why == left_out_.end() ? fmt::format("its output '{}' is not computed", to_utf8(name))
                                  : why->second);
    return {};
  }

  void add_node(const std::string& name, const Source& s) {
    Node node;
    const onnx::Value& known = source_.value(name);
    Value out;
    out.name = to_utf8(name);
    if (s.view != nullptr) {
      auto shape = shape_of(known);
      const Value& from = graph_.values[places_.at(to_utf8(s.reads[0]))];
      if (!shape) {
        refuse(to_utf8(s.view->label()), "the shape of its output is not known");
        return;
      }
      node.label = to_utf8(s.view->label());
      node.operands["X"] = places_.at(to_utf8(s.reads[0]));
      out.elem = from.elem;
      out.shape = *shape;
    } else {
      const Workload workload = parse_workload(s.layer->spec);
      node.label = to_utf8(s.layer->nodes[0]->label());
      node.spec = spec_to_inline(parse_spec(workload.canonical));
      for (const auto& [operand, value] : s.layer->operands) {
        node.operands[operand] = places_.at(to_utf8(value));
      }
      auto shape = shape_of(known);
      out.elem = workload.output()->elem;
      out.shape = shape ? *shape : operands_of(workload, {}).back().shape;
    }
    place(to_utf8(name), out);
    node.output = places_.at(to_utf8(name));
    graph_.nodes.push_back(std::move(node));
  }

  // Adds what the value needs, then the value.
  void need(const std::string& wanted) {
    struct Step {
      std::string name;
      Source source;
      size_t next = 0;
    };
    std::vector<Step> steps;
    std::set<std::string> open;
    auto begin = [&](const std::string& name) {
      if (places_.contains(to_utf8(name)) || failed_.contains(name) || add_constant(name)) return;
      if (!open.insert(name).second) {
        refuse(to_utf8(name), "it is calculated from itself");
        return;
      }
      Source source = source_of(name);
      if (source.reads.empty() && source.layer == nullptr) {
        failed_.insert(name);
        open.erase(name);
        return;
      }
      steps.push_back({name, std::move(source)});
    };
    begin(wanted);
    while (!steps.empty()) {
      if (steps.back().next < steps.back().source.reads.size()) {
        const std::string read = steps.back().source.reads[steps.back().next++];
        begin(read);
        continue;
      }
      const Step step = std::move(steps.back());
      steps.pop_back();
      open.erase(step.name);
      bool whole = true;
      for (const std::string& read : step.source.reads) {
        whole = whole && places_.contains(to_utf8(read));
      }
      if (whole) add_node(step.name, step.source);
      if (!places_.contains(to_utf8(step.name))) failed_.insert(step.name);
    }
  }

  [[noreturn]] void throw_refused() const {
    std::string text = fmt::format("{}: {} of its {} nodes have no kernel:", to_utf8(model_.path),
                                   refused_.size(), model_.nodes.size());
    size_t named = 0;
    for (const auto& [node, reason] : refused_) {
      if (named++ == kMostNamed) {
        text += fmt::format("\n  and {} more", refused_.size() - kMostNamed);
        break;
      }
      text += fmt::format("\n  {}: {}", node, reason);
    }
    throw GraphError(text);
  }

  const onnx::Model& model_;
  const onnx::Graph& source_;
  std::map<std::string, const onnx::Layer*> makers_;
  std::map<std::string, const onnx::MadeConstant*> made_;
  std::map<const onnx::Node*, std::string> left_out_;
  Graph graph_;
  std::map<std::string, size_t> places_;
  std::set<std::string> failed_;
  std::map<std::string, std::string> refused_;
};

}  // namespace

Graph import_onnx(const onnx::Model& model, const std::map<std::string, DimSize>& sizes,
                  const onnx::StandIns& stand_ins) {
  onnx::Values values(model, sizes, stand_ins);
  const onnx::Graph source(model, values);
  onnx::LayerOptions options;
  options.whole = true;
  const onnx::Layers layers = find_layers(source, options);
  return Importer(model, source, layers).import();
}

}  // namespace tilewright::graph
