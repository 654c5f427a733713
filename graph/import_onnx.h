// Graphs from ONNX models.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "graph/graph.h"
#include "ir/ops/spec.h"
#include "models/onnx/extent.h"
#include "models/onnx/model.h"

namespace tilewright::graph {

// Nodes that no kernel computes. The message names them with their reasons.
class UnmappedError : public GraphError {
 public:
  UnmappedError(const std::string& text, std::set<std::string> refused)
      : GraphError(text), nodes(std::move(refused)) {}
  std::set<std::string> nodes;  // by the model's names for them
};

// The whole model, where named dimensions of its inputs have these sizes or ranges. The layers are those of
// onnx::find_layers. `unrolled`: recurrent layers become no loops (LayerOptions). Throws UsageError for sizes that are missing, and UnmappedError that names each node
// which an output needs and no kernel computes, with the reason.
Graph import_onnx(const onnx::Model& model, const std::map<std::string, DimSize>& sizes,
                  const onnx::StandIns& stand_ins = onnx::kStandIns, bool unrolled = false);

}  // namespace tilewright::graph
