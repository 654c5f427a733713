// A graph of the runtime, read: nodes in an order in which each follows what it reads.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "provider/runtime.h"

namespace tilewright::provider {

struct NodeView {
  const ort::Node* node;
  std::string name, op, domain;
  std::vector<std::string> inputs = {}, outputs = {};  // "" where one is left out
  std::vector<std::string> implicit_inputs = {};       // what graphs within the node read
  bool holds_graphs = false;
};

// The type that a graph declares for a value.
struct ValueType {
  int32_t elem = 0;  // 0: it is no tensor
  bool has_shape = false;
  std::vector<int64_t> sizes;      // -1: one that runs give
  std::vector<std::string> names;  // of such sizes; "" without one
};

// A tensor that belongs to the runtime.
struct TensorView {
  int32_t elem = 0;
  std::vector<int64_t> shape;
  const void* data = nullptr;
  size_t bytes = 0;
};

class GraphView {
 public:
  GraphView(const Runtime& runtime, const ort::Graph* graph);

  const std::vector<NodeView>& nodes() const { return nodes_; }
  int64_t ir_version() const;
  std::map<std::string, int64_t> operator_sets() const;
  bool is_output(const std::string& value) const;
  // An initializer that no run replaces.
  bool is_constant(const std::string& value) const;
  ValueType type(const std::string& value) const;
  TensorView constant(const std::string& value) const;
  const Runtime& runtime() const { return runtime_; }

 private:
  std::vector<std::string> names(const std::vector<const ort::ValueInfo*>& infos);
  const ort::ValueInfo* info(const std::string& value) const { return infos_.at(value); }

  const Runtime& runtime_;
  const ort::Graph* graph_;
  std::vector<NodeView> nodes_;
  std::map<std::string, const ort::ValueInfo*> infos_;
};

TensorView view_of(const Runtime& runtime, const ort::Value* value);

// An attribute with its data.
struct AttributeView {
  std::string name;
  ort::AttributeType type = ort::kInt;
  std::string data;   // bytes of numbers, or of a text; texts end with a zero byte each
  TensorView tensor;  // whose data is in `data`
};
// Sorted by name. Graphs are left out.
std::vector<AttributeView> attributes_of(const Runtime& runtime, const ort::Node* node);
// A text of a node; "" where it has no such attribute.
std::string text_attribute(const Runtime& runtime, const ort::Node* node, const std::string& name);

}  // namespace tilewright::provider
