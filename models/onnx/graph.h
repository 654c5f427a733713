// Who makes and who takes the values of a model.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "models/onnx/values.h"

namespace tilewright::onnx {

class Graph {
 public:
  // Both outlive it.
  Graph(const Model& model, Values& values);

  const Model& model() const { return model_; }
  Values& values() const { return values_; }
  const Value& value(const std::string& name) const { return values_.at(name); }
  int64_t opset(const Node& node) const;

  // The node that makes a value; null for inputs and constants.
  const Node* producer(const std::string& value) const;
  // One entry a use; a node that takes the value twice stands there twice.
  const std::vector<const Node*>& users(const std::string& value) const;
  // The node that takes a value where nothing else does and the model does not give it out, or null.
  const Node* only_user(const std::string& value) const;
  bool is_output(const std::string& value) const { return outputs_.contains(value); }
  // A node's first input, or second, that is not `value`.
  static const std::string& other_input(const Node& node, const std::string& value);
  size_t index_of(const Node& node) const {
    return static_cast<size_t>(&node - model_.nodes.data());
  }

 private:
  const Model& model_;
  Values& values_;
  std::map<std::string, const Node*> producers_;
  std::map<std::string, std::vector<const Node*>> users_;
  std::set<std::string> outputs_;
};

}  // namespace tilewright::onnx
