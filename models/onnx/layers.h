// The work of a model as specs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/type.h"
#include "models/onnx/graph.h"

namespace tilewright::onnx {

// A constant that the file does not hold and a layer reads: a table of indices, of weights.
struct MadeConstant {
  std::string name;
  ElemType elem = ElemType::f32;
  std::vector<int64_t> shape;
  std::vector<double> values;
};

// A workload of the model, and where it stands.
struct Layer {
  std::string spec;                // a JSON object
  std::vector<const Node*> nodes;  // what it stands for, the one that names it first
  // The values that its operands are, "A": "x". Row-major elements lie in them as the operand wants
  // them, but for what `note` says and weights in a form of their own.
  std::map<std::string, std::string> operands;
  std::string output;
  std::string note;                     // what has to be done besides, or ""
  std::vector<MadeConstant> made = {};  // with LayerOptions::whole
};

struct LeftOut {
  const Node* node;
  std::string reason;
};

struct LayerOptions {
  // Convolutions over images with the channels last, whatever the model has.
  bool channels_last = false;
  // Layers for all nodes, those that move elements too, such that together they compute what the model
  // does: nothing has to be done besides. A layer may read what an earlier one made for it, under a
  // name that the file does not have. Sizes have to be numbers. Truth values are u8.
  bool whole = false;
};

struct Layers {
  std::vector<Layer> layers;
  std::vector<LeftOut> left_out;
};

// The value whose elements an output has under another name, perhaps in another shape: of a view, and of an If
// whose condition is known. Nothing for other nodes.
std::optional<std::string> shown_value(const Graph& graph, const Node& node,
                                       const std::string& output);

// All nodes but those that move or calculate nothing when the model runs: shapes, constants, views.
// Each spec parses.
Layers find_layers(const Graph& graph, const LayerOptions& options);

}  // namespace tilewright::onnx
