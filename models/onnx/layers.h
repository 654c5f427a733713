// The work of a model as specs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/onnx/graph.h"

namespace tilewright::onnx {

// A workload of the model, and where it stands.
struct Layer {
  std::string spec;                // a JSON object
  std::vector<const Node*> nodes;  // what it stands for, the one that names it first
  // The values that its operands are, "A": "x". Row-major elements lie in them as the operand wants
  // them, but for what `note` says and weights in a form of their own.
  std::map<std::string, std::string> operands;
  std::string output;
  std::string note;  // what has to be done besides, or ""
};

struct LeftOut {
  const Node* node;
  std::string reason;
};

struct LayerOptions {
  // Convolutions over images with the channels last, whatever the model has.
  bool channels_last = false;
};

struct Layers {
  std::vector<Layer> layers;
  std::vector<LeftOut> left_out;
};

// All nodes but those that move or calculate nothing when the model runs: shapes, constants, views.
// Each spec parses.
Layers find_layers(const Graph& graph, const LayerOptions& options);

}  // namespace tilewright::onnx
