#include "models/onnx/graph.h"

namespace tilewright::onnx {

Graph::Graph(const Model& model, Values& values) : model_(model), values_(values) {
  for (const Node& node : model.nodes) {
    for (const std::string& name : node.outputs) producers_[name] = &node;
    for (const std::string& name : node.inputs) users_[name].push_back(&node);
  }
  for (const DeclaredValue& v : model.outputs) outputs_.insert(v.name);
}

int64_t Graph::opset(const Node& node) const {
  auto it = model_.opsets.find(node.domain);
  return it == model_.opsets.end() ? 1 : it->second;
}

const Node* Graph::producer(const std::string& value) const {
  auto it = producers_.find(value);
  return it == producers_.end() || value.empty() ? nullptr : it->second;
}

const std::vector<const Node*>& Graph::users(const std::string& value) const {
  static const std::vector<const Node*> kNone;
  auto it = users_.find(value);
  return it == users_.end() ? kNone : it->second;
}

const Node* Graph::only_user(const std::string& value) const {
  const std::vector<const Node*>& all = users(value);
  return all.size() == 1 && !is_output(value) ? all[0] : nullptr;
}

const std::string& Graph::other_input(const Node& node, const std::string& value) {
  static const std::string kNone;
  for (size_t i = 0; i < node.inputs.size() && i < 2; ++i) {
    if (node.inputs[i] != value) return node.inputs[i];
  }
  return node.inputs.empty() ? kNone : node.inputs[0];
}

}  // namespace tilewright::onnx
