// Functions that models write out in several nodes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/onnx/graph.h"

namespace tilewright::onnx {

// A function of each element: "relu", "gelu", "silu".
struct FunctionMatch {
  std::string fn;
  std::string output;
  std::vector<const Node*> nodes;
};

// The function that takes the value, where nothing else takes it or what lies within the function,
// and the model gives out none of these.
std::optional<FunctionMatch> match_function(const Graph& graph, const std::string& value);

// A normalization of rows that is written out.
struct NormMatch {
  std::string op;  // "layer_norm", "rms_norm"
  std::string input, output;
  double eps = 0;
  std::string gamma, beta;  // "": none
  std::vector<const Node*> nodes;
};

// The one whose first node is `first`: that which squares the input or takes its mean.
std::optional<NormMatch> match_norm(const Graph& graph, const Node& first);

}  // namespace tilewright::onnx
