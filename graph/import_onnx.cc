#include "graph/import_onnx.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/utf8.h"
#include "graph/loops/loops.h"
#include "graph/plain/plain.h"
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

// What makes the values of a model, and why some of its nodes are refused.
struct Sources {
  explicit Sources(const onnx::Layers& layers) {
    for (const onnx::Layer& layer : layers.layers) {
      if (!layer.output.empty()) makers.emplace(to_utf8(layer.output), &layer);
      if (layer.loop != nullptr) {
        for (const auto& output : layer.loop->outputs) makers.emplace(to_utf8(output.name), &layer);
      }
      for (const std::string& more : layer.more) makers.emplace(to_utf8(more), &layer);
      for (const onnx::MadeConstant& m : layer.made) made.emplace(to_utf8(m.name), &m);
    }
    for (const onnx::LeftOut& l : layers.left_out) left_out.emplace(l.node, l.reason);
  }

  std::map<std::string, const onnx::Layer*> makers;
  std::map<std::string, const onnx::MadeConstant*> made;
  std::map<const onnx::Node*, std::string> left_out;
  std::map<std::string, std::string> refused;
  std::set<std::string> refused_nodes;    // by their names alone
  std::set<const onnx::LayerLoop*> open;  // loops whose bodies are being made
};

// Makes values on demand, beginning with the outputs, so that nothing is imported that none needs. The body of a loop
// has an importer of its own, which takes from the one around it what is made there.
class Importer {
 public:
  Importer(const onnx::Model& model, const onnx::Graph& source, Sources& sources,
           Importer* around = nullptr, const onnx::LayerLoop* loop = nullptr)
      : model_(model), source_(source), sources_(sources), around_(around), loop_(loop) {
    for (const onnx::NamedSize& size : extents().named()) {
      if (size.by_value && size.stand_in == 0) continue;  // nodes that have it are refused
      graph_.dims.push_back({to_utf8(size.name), size.range, size.stand_in, size.by_value});
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
    if (!sources_.refused.empty()) throw_refused();
    for (const onnx::DeclaredValue& output : model_.outputs) {
      graph_.outputs.push_back(places_.at(to_utf8(output.name)));
    }
    std::set<std::string> said;
    for (const Node& node : graph_.nodes) {
      if (node.is_plain()) said.insert(graph_.dims[PlainRoutine(graph_, node).dim()].name);
    }
    std::erase_if(graph_.dims, [&](const Dim& d) { return d.by_value && !said.contains(d.name); });
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

  // `op`: of a node, which messages show.
  void refuse(const std::string& node, const std::string& reason, const std::string& op = "") {
    sources_.refused.emplace(op.empty() ? node : fmt::format("{} ({})", node, op), reason);
    sources_.refused_nodes.insert(node);
  }

  // Whether the value is a constant of the model, or a number that was inferred; adds it.
  bool add_constant(const std::string& name) {
    if (auto made = sources_.made.find(name); made != sources_.made.end()) {
      const onnx::MadeConstant& m = *made->second;
      place(name, {name, m.elem, m.shape, true,
                   m.data != nullptr ? m.data : number_data(m.elem, m.values)});
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

  // What counts the elements along axes whose sizes a run calculates: it stands in front of the value.
  std::vector<std::string> places_of_sizes(const std::string& value) const {
    std::vector<std::string> places;
    const onnx::Value& known = source_.value(value);
    for (const onnx::Extent& e : known.shape.value_or(onnx::Shape())) {
      for (const onnx::CalculatedSize& size : source_.values().calculated()) {
        if (e.has(size.name) && size.has_places() && value != size.places()) {
          places.push_back(size.places());
        }
      }
    }
    return places;
  }

  // How the value is calculated; without reads where it cannot be, which is noted.
  Source source_of(const std::string& name) {
    if (auto maker = sources_.makers.find(name); maker != sources_.makers.end()) {
      Source s{maker->second, nullptr, places_of_sizes(name)};
      for (const auto& [operand, value] : maker->second->operands) s.reads.push_back(value);
      if (const auto& loop = maker->second->loop; loop != nullptr) {
        for (const auto& input : loop->inputs) {
          if (!input.value.empty()) s.reads.push_back(input.value);
        }
        if (!loop->count.empty()) s.reads.push_back(loop->count);
      }
      return s;
    }
    const onnx::Node* node = source_.producer(name);
    const auto shown = node == nullptr ? std::nullopt : onnx::shown_value(source_, *node, name);
    if (shown) {
      Source s{nullptr, node, places_of_sizes(name)};
      s.reads.insert(s.reads.begin(), *shown);
      return s;
    }
    if (node == nullptr) {
      const onnx::Value& known = source_.value(name);
      const bool away = known.tensor != nullptr && known.tensor->external;
      refuse(name.empty() ? "an input that is left out" : name,
             away ? "the file that holds it is not there" : "no node makes it");
      return {};
    }
    auto why = sources_.left_out.find(node);
    refuse(to_utf8(node->label()),
           why == sources_.left_out.end()
               ? fmt::format("its output '{}' is not computed", to_utf8(name))
               : why->second,
           to_utf8(node->full_op()));
    return {};
  }

  void add_node(const std::string& name, const Source& s) {
    if (s.layer != nullptr && s.layer->loop != nullptr) return add_loop(*s.layer);
    if (s.layer != nullptr && !s.layer->plain.empty()) return add_plain(*s.layer);
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

  void add_plain(const onnx::Layer& layer) {
    Node node;
    node.label = to_utf8(layer.nodes[0]->label());
    node.plain = layer.plain;
    for (const auto& [operand, value] : layer.operands) {
      node.operands[operand] = places_.at(to_utf8(value));
    }
    std::vector<std::string> outputs = {layer.output};
    outputs.insert(outputs.end(), layer.more.begin(), layer.more.end());
    for (const std::string& output : outputs) {
      const onnx::Value& known = source_.value(output);
      const auto elem = stored_type(known.type);
      const auto shape = shape_of(known);
      if (!elem || !shape) return refuse(node.label, "the shape of its output is not known");
      place(to_utf8(output), {to_utf8(output), *elem, *shape});
      if (output == layer.output) {
        node.output = places_.at(to_utf8(output));
      } else {
        node.more.push_back(places_.at(to_utf8(output)));
      }
    }
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
      if (around_ != nullptr && !is_inside(name)) return take_from_outside(name);
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
                                   sources_.refused.size(), model_.nodes.size());
    size_t named = 0;
    for (const auto& [node, reason] : sources_.refused) {
      if (named++ == kMostNamed) {
        text += fmt::format("\n  and {} more", sources_.refused.size() - kMostNamed);
        break;
      }
      text += fmt::format("\n  {}: {}", node, reason);
    }
    throw UnmappedError(text, sources_.refused_nodes);
  }

  // Whether the body, not a graph around it, makes the value.
  bool is_inside(const std::string& name) const {
    const auto maker = sources_.makers.find(name);
    if (maker != sources_.makers.end()) {
      return std::ranges::count(maker->second->bodies, loop_->body) > 0;
    }
    const onnx::Node* node = source_.producer(name);
    return node != nullptr && std::ranges::count(node->bodies, loop_->body) > 0;
  }

  // A value of the graph around the body.
  void take_from_outside(const std::string& name) {
    if (!around_->provide(name)) {
      failed_.insert(name);
      return;
    }
    const Value& outer = around_->graph_.values[around_->places_.at(to_utf8(name))];
    place(to_utf8(name), outer);
    if (outer.constant) return;
    inputs_.push_back({Loop::In::Whole, 0});
    operands_[outer.name] = around_->places_.at(to_utf8(name));
    graph_.inputs.push_back(places_.at(to_utf8(name)));
  }

  // Whether the value is there, after all that it needs was added.
  bool provide(const std::string& name) {
    if (!places_.contains(to_utf8(name))) need(name);
    return places_.contains(to_utf8(name));
  }

  // Body, inputs and operands of the loop whose body this imports; false where a node has no kernel.
  bool import_body(Node* node, Loop* made) {
    for (const auto& in : loop_->inputs) {
      Loop::Input input;
      switch (in.kind) {
        case onnx::LayerLoop::In::Rows: input.kind = Loop::In::Rows; break;
        case onnx::LayerLoop::In::RowsBack: input.kind = Loop::In::RowsBack; break;
        case onnx::LayerLoop::In::Carried: input.kind = Loop::In::Carried; break;
        case onnx::LayerLoop::In::Number: input.kind = Loop::In::Number; break;
      }
      place(to_utf8(in.name), {to_utf8(in.name), in.elem, in.shape});
      graph_.inputs.push_back(places_.at(to_utf8(in.name)));
      inputs_.push_back(input);
      if (!in.value.empty()) operands_[to_utf8(in.name)] = around_->places_.at(to_utf8(in.value));
    }
    const auto output = [&](const std::string& name) {
      const size_t value = places_.at(to_utf8(name));
      const auto found = std::ranges::find(graph_.outputs, value);
      if (found == graph_.outputs.end()) graph_.outputs.push_back(value);
      return static_cast<size_t>(std::ranges::find(graph_.outputs, value) - graph_.outputs.begin());
    };
    std::vector<std::string> wanted;
    for (const auto& in : loop_->inputs) {
      if (!in.next.empty()) wanted.push_back(in.next);
    }
    for (const auto& out : loop_->outputs) wanted.push_back(out.value);
    if (!loop_->go_on.empty()) wanted.push_back(loop_->go_on);
    bool whole = true;
    for (const std::string& name : wanted) whole = provide(name) && whole;
    if (!whole) return false;
    for (size_t i = 0; i < loop_->inputs.size(); ++i) {
      if (!loop_->inputs[i].next.empty()) inputs_[i].next = output(loop_->inputs[i].next);
    }
    for (const auto& out : loop_->outputs) {
      made->outputs.push_back({output(out.value), out.rows, out.back});
    }
    if (!loop_->go_on.empty()) made->go_on = output(loop_->go_on);
    graph_.name = loop_->body;
    made->body = std::move(graph_);
    made->body.name.clear();
    made->inputs = std::move(inputs_);
    node->operands = std::move(operands_);
    return true;
  }

  void add_loop(const onnx::Layer& layer) {
    const onnx::LayerLoop& loop = *layer.loop;
    if (!sources_.open.insert(&loop).second) {
      refuse(to_utf8(layer.nodes[0]->label()), "it is calculated from itself");
      return;
    }
    Importer body(model_, source_, sources_, this, &loop);
    Node node;
    auto made = std::make_shared<Loop>();
    made->rounds = loop.rounds;
    const bool whole = body.import_body(&node, made.get());
    sources_.open.erase(&loop);
    if (!whole) return;
    node.label = to_utf8(layer.nodes[0]->label());
    if (!loop.count.empty()) node.operands[kRounds] = places_.at(to_utf8(loop.count));
    for (size_t o = 0; o < loop.outputs.size(); ++o) {
      Value out = made->body.values[made->body.outputs[made->outputs[o].from]];
      out.name = to_utf8(loop.outputs[o].name);
      out.constant = false;
      out.data = nullptr;
      if (loop.outputs[o].rows) out.shape.insert(out.shape.begin(), loop.rounds);
      place(out.name, out);
      const size_t value = places_.at(out.name);
      if (o == 0) {
        node.output = value;
      } else {
        node.more.push_back(value);
      }
    }
    node.loop = std::move(made);
    graph_.nodes.push_back(std::move(node));
  }

  const onnx::Model& model_;
  const onnx::Graph& source_;
  Sources& sources_;
  Importer* around_;             // null: this is the model's graph
  const onnx::LayerLoop* loop_;  // whose body this imports
  std::vector<Loop::Input> inputs_;
  std::map<std::string, size_t> operands_;
  Graph graph_;
  std::map<std::string, size_t> places_;
  std::set<std::string> failed_;
};

}  // namespace

Graph import_onnx(const onnx::Model& model, const std::map<std::string, DimSize>& sizes,
                  const onnx::StandIns& stand_ins, bool unrolled) {
  onnx::Values values(model, sizes, stand_ins);
  const onnx::Graph source(model, values);
  onnx::LayerOptions options;
  options.whole = true;
  options.unrolled = unrolled;
  const onnx::Layers layers = find_layers(source, options);
  Sources sources(layers);
  return Importer(model, source, sources).import();
}

}  // namespace tilewright::graph
