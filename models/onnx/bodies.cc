// Graphs that nodes hold: the branches of If, the bodies of Loop and Scan.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "models/onnx/read.h"

namespace tilewright::onnx {
namespace {

// Where a body's nodes stand, and how often they run.
std::string place_of(const Node& holder) {
  if (holder.op == "If") return "in a branch of If '" + holder.label() + "', which may not run";
  return "in the body of " + holder.op + " '" + holder.label() +
         "', which may run any number of times";
}

// Names of its own become "PREFIX/NAME"; others are those of the graph around it.
class Renamer {
 public:
  Renamer(const GraphPart& body, const std::string& prefix) {
    const auto add = [&](const std::string& name) {
      if (!name.empty()) names_.emplace(name, prefix + "/" + name);
    };
    for (const auto& [name, tensor] : body.constants) add(name);
    for (const DeclaredValue& value : body.inputs) add(value.name);
    for (const DeclaredValue& value : body.body_inputs) add(value.name);
    for (const Node& node : body.nodes) {
      for (const std::string& output : node.outputs) add(output);
    }
  }

  void rename(std::string& name) const {
    const auto own = names_.find(name);
    if (own != names_.end()) name = own->second;
  }
  void rename(std::vector<DeclaredValue>& values) const {
    for (DeclaredValue& value : values) rename(value.name);
  }

 private:
  std::map<std::string, std::string> names_;
};

void append(std::vector<DeclaredValue>& to, std::vector<DeclaredValue>&& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// The prefix of the values of a node's graphs: its first output, which no other node has.
std::string value_of(const Node& holder) {
  return holder.outputs.empty() || holder.outputs[0].empty() ? holder.label() : holder.outputs[0];
}

// Moves what is in the body, the attribute of that name, to the graph around it, its nodes to `nodes`.
void move_out(GraphPart& body, const Node& holder, const std::string& attribute, GraphPart* around,
              std::vector<Node>* nodes) {
  const std::string prefix = value_of(holder) + "/" + attribute;
  const Renamer names(body, prefix);
  for (Node& node : body.nodes) {
    node.name = holder.label() + "/" + attribute + "/" + node.label();
    node.within = place_of(holder) + (node.within.empty() ? "" : "; ") + node.within;
    for (std::string& input : node.inputs) names.rename(input);
    for (std::string& output : node.outputs) names.rename(output);
    for (Node::Body& own : node.held) {
      own.name.insert(0, prefix + "/");
      for (std::string& input : own.inputs) names.rename(input);
      for (std::string& output : own.outputs) names.rename(output);
    }
    for (std::string& around : node.bodies) around.insert(0, prefix + "/");
    node.bodies.insert(node.bodies.begin(), prefix);
    nodes->push_back(std::move(node));
  }
  for (auto& [name, tensor] : body.constants) {
    std::string renamed = name;
    names.rename(renamed);
    tensor.name = renamed;
    around->constants.emplace(renamed, std::move(tensor));
  }
  for (std::vector<DeclaredValue>* values :
       {&body.inputs, &body.body_inputs, &body.outputs, &body.values}) {
    names.rename(*values);
  }
  append(around->values, std::move(body.values));
  append(around->body_inputs, std::move(body.inputs));
  append(around->body_inputs, std::move(body.body_inputs));
}

}  // namespace

void enter_graphs_of_nodes(GraphPart* graph) {
  std::vector<Node> nodes;
  for (Node& node : graph->nodes) {
    std::vector<std::string> results;
    for (auto& [name, attribute] : node.attributes) {
      for (size_t i = 0; i < attribute.graphs.size(); ++i) {
        GraphPart& body = *attribute.graphs[i];
        enter_graphs_of_nodes(&body);
        std::vector<std::string> given;
        for (const DeclaredValue& input : body.inputs) given.push_back(input.name);
        const std::string number = attribute.graphs.size() > 1 ? "." + std::to_string(i) : "";
        move_out(body, node, name + number, graph, &nodes);
        Node::Body held{fmt::format("{}/{}{}", value_of(node), name, number), {}, {}};
        for (const std::string& input : given) held.inputs.push_back(held.name + "/" + input);
        for (const DeclaredValue& output : body.outputs) held.outputs.push_back(output.name);
        node.held.push_back(std::move(held));
        for (const DeclaredValue& output : body.outputs) results.push_back(output.name);
        node.holds_graphs = true;
      }
      attribute.graphs.clear();
    }
    node.inputs.insert(node.inputs.end(), results.begin(), results.end());
    nodes.push_back(std::move(node));
  }
  graph->nodes = std::move(nodes);
}

}  // namespace tilewright::onnx
