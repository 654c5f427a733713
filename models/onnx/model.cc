#include "models/onnx/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "models/onnx/read.h"
#include "models/onnx/wire.h"
#include "models/weights/mapped_file.h"

namespace tilewright::onnx {
namespace {

std::string own_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

constexpr int kMostDepth = 16;                    // of graphs within graphs
constexpr int64_t kMostFixed = int64_t{1} << 20;  // elements of an input that becomes a constant

void read_graph(Message message, int depth, GraphPart* graph);

std::shared_ptr<GraphPart> read_inner_graph(const Field& field, int depth) {
  if (depth >= kMostDepth) {
    field.fail("expected at most " + std::to_string(kMostDepth) + " graphs within each other");
  }
  auto graph = std::make_shared<GraphPart>();
  read_graph(field.message("a graph of a node"), depth + 1, graph.get());
  return graph;
}

std::pair<std::string, Attribute> read_attribute(const Field& field, int depth) {
  std::string name;
  Attribute a;
  const std::string what = "an attribute";
  Message message = field.message(what);
  while (std::optional<Field> f = message.next()) {
    switch (f->number()) {
      case 1: name = f->text("the name of an attribute"); break;
      case 2: a.f = f->real(what); break;
      case 3: a.i = f->integer(what); break;
      case 4: a.s = std::string(f->bytes(what)); break;
      case 5: a.t = read_tensor(*f, "the tensor of an attribute"); break;
      case 6:
      case 11: a.graphs.push_back(read_inner_graph(*f, depth)); break;
      case 7: f->reals(what, &a.floats); break;
      case 8: f->integers(what, &a.ints); break;
      case 9: a.strings.emplace_back(f->bytes(what)); break;
      default: break;
    }
  }
  return {name, std::move(a)};
}

Node read_node(const Field& field, int depth) {
  Node node;
  Message message = field.message("a node");
  while (std::optional<Field> f = message.next()) {
    switch (f->number()) {
      case 1: node.inputs.push_back(f->text("the name of a node's input")); break;
      case 2: node.outputs.push_back(f->text("the name of a node's output")); break;
      case 3: node.name = f->text("the name of a node"); break;
      case 4: node.op = f->text("the operator of a node"); break;
      case 5: node.attributes.insert(read_attribute(*f, depth)); break;
      case 7: node.domain = own_domain(f->text("the domain of a node")); break;
      default: break;
    }
  }
  if (node.op.empty()) field.fail("expected the operator of node '" + node.label() + "'");
  return node;
}

// Adds a node under the name by which the rules know it: a Sum is an Add, of three inputs and more one
// after another.
void add_node(Node node, std::vector<Node>* nodes) {
  if (!node.domain.empty() || node.op != "Sum" || node.inputs.empty() || node.outputs.empty()) {
    nodes->push_back(std::move(node));
    return;
  }
  const std::vector<std::string> terms = node.inputs;
  node.op = terms.size() == 1 ? "Identity" : "Add";
  const std::string last = node.outputs[0], name = node.name;
  for (size_t i = 2; i <= terms.size(); ++i) {
    node.inputs = {i == 2 ? terms[0] : node.outputs[0], terms[i - 1]};
    const bool whole = i == terms.size();
    node.outputs = {whole ? last : fmt::format("{}/sum{}", last, i)};
    node.name = whole || name.empty() ? name : fmt::format("{}/sum{}", name, i);
    nodes->push_back(node);
  }
  if (terms.size() == 1) nodes->push_back(std::move(node));
}

DeclaredSize read_size(const Field& field) {
  DeclaredSize size;
  Message message = field.message("a size");
  while (std::optional<Field> f = message.next()) {
    if (f->number() == 1) size.number = f->integer("a size");
    if (f->number() == 2) size.name = f->text("the name of a size");
  }
  // A size below 0 is how some programs write one that they do not know.
  if (size.number && *size.number < 0) size.number.reset();
  return size;
}

void read_tensor_type(Message message, DeclaredValue* value) {
  while (std::optional<Field> f = message.next()) {
    if (f->number() == 1) {
      value->type = static_cast<DataType>(f->integer("the type of '" + value->name + "'"));
    } else if (f->number() == 2) {
      value->shape.emplace();
      Message shape = f->message("the shape of '" + value->name + "'");
      while (std::optional<Field> dim = shape.next()) {
        if (dim->number() == 1) value->shape->push_back(read_size(*dim));
      }
    }
  }
}

DeclaredValue read_value(const Field& field) {
  DeclaredValue value;
  Message message = field.message("a value");
  while (std::optional<Field> f = message.next()) {
    if (f->number() == 1) value.name = f->text("the name of a value");
    if (f->number() != 2) continue;
    Message type = f->message("the type of '" + value.name + "'");
    while (std::optional<Field> t = type.next()) {
      if (t->number() == 1)
        read_tensor_type(t->message("the type of '" + value.name + "'"), &value);
    }
  }
  return value;
}

void read_graph(Message message, int depth, GraphPart* graph) {
  while (std::optional<Field> f = message.next()) {
    switch (f->number()) {
      case 1: add_node(read_node(*f, depth), &graph->nodes); break;
      case 2: graph->graph_name = f->text("the name of the graph"); break;
      case 5: {
        Tensor t = read_tensor(*f, "a constant");
        std::string name = t.name;
        if (!graph->constants.emplace(name, std::move(t)).second) {
          f->fail("constant '" + name + "' stands twice");
        }
        break;
      }
      case 11: graph->inputs.push_back(read_value(*f)); break;
      case 12: graph->outputs.push_back(read_value(*f)); break;
      case 13: graph->values.push_back(read_value(*f)); break;
      default: break;
    }
  }
  // Old models list their constants among the inputs.
  std::erase_if(graph->inputs,
                [&](const DeclaredValue& v) { return graph->constants.contains(v.name); });
}

void read_opset(Message message, Model* model) {
  std::string domain;
  int64_t version = 0;
  while (std::optional<Field> f = message.next()) {
    if (f->number() == 1) domain = own_domain(f->text("the domain of an operator set"));
    if (f->number() == 2) version = f->integer("the version of an operator set");
  }
  model->opsets[domain] = version;
}

}  // namespace

std::string Node::label() const {
  if (!name.empty()) return name;
  auto first = std::find_if(outputs.begin(), outputs.end(),
                            [](const std::string& output) { return !output.empty(); });
  return first == outputs.end() ? op : *first;
}

const Attribute* Node::find(const std::string& attribute) const {
  auto it = attributes.find(attribute);
  return it == attributes.end() ? nullptr : &it->second;
}

int64_t Node::integer(const std::string& attribute, int64_t fallback) const {
  const Attribute* a = find(attribute);
  return a == nullptr ? fallback : a->i;
}

double Node::real(const std::string& attribute, double fallback) const {
  const Attribute* a = find(attribute);
  return a == nullptr ? fallback : a->f;
}

std::string Node::text(const std::string& attribute, const std::string& fallback) const {
  const Attribute* a = find(attribute);
  return a == nullptr ? fallback : a->s;
}

std::optional<std::vector<int64_t>> Node::integers(const std::string& attribute) const {
  const Attribute* a = find(attribute);
  return a == nullptr ? std::nullopt : std::optional(a->ints);
}

void fix_input(Model* model, const std::string& name, double value) {
  const auto input = std::ranges::find(model->inputs, name, &DeclaredValue::name);
  if (input == model->inputs.end()) {
    std::string names;
    for (const DeclaredValue& v : model->inputs) names += (names.empty() ? "" : ", ") + v.name;
    throw UsageError(
        fmt::format("{}: no input is called '{}'; the model has {}", model->path, name, names));
  }
  const auto elem = elem_type(input->type);
  if (!elem || !input->shape) {
    throw UsageError(
        fmt::format("{}: the type or the shape of input '{}' is not known", model->path, name));
  }
  Tensor tensor;
  tensor.name = name;
  tensor.type = input->type;
  for (const DeclaredSize& size : *input->shape) {
    if (!size.number || *size.number < 1 || *size.number > kMostFixed / tensor.count) {
      throw UsageError(
          fmt::format("{}: input '{}' has a size that is no number, or is large; a constant has {} "
                      "elements at most",
                      model->path, name, kMostFixed));
    }
    tensor.shape.push_back(*size.number);
    tensor.count *= *size.number;
  }
  const auto count = static_cast<size_t>(tensor.count);
  if (is_float(*elem)) {
    tensor.reals.assign(count, value);
  } else {
    tensor.integers.assign(count, static_cast<int64_t>(value));
  }
  model->inputs.erase(input);
  model->constants.emplace(name, std::move(tensor));
}

Model read_model(std::string_view bytes, const std::string& path) {
  Model model;
  model.path = path;
  bool has_graph = false;
  Message message(bytes, 0, model.path);
  while (std::optional<Field> f = message.next()) {
    switch (f->number()) {
      case 2: model.producer = f->text("the name of the producer"); break;
      case 7:
        if (has_graph) f->fail("expected one graph, found another one");
        has_graph = true;
        read_graph(f->message("the graph"), 0, &model);
        break;
      case 8: read_opset(f->message("an operator set"), &model); break;
      default: break;
    }
  }
  if (!has_graph) {
    weights::damaged(path, bytes.size(),
                     "expected an ONNX model with a graph (field 7), found none");
  }
  enter_graphs_of_nodes(&model);
  return model;
}

}  // namespace tilewright::onnx
