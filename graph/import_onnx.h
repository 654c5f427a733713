// Graphs from ONNX models.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"
#include "ir/ops/spec.h"
#include "models/onnx/model.h"

namespace tilewright::graph {

// The whole model, where each named dimension of its inputs has one size. The layers are those of
// onnx::find_layers. Throws UsageError for sizes that are missing, and GraphError that names each node
// which an output needs and no kernel computes, with the reason.
Graph import_onnx(const onnx::Model& model, const std::map<std::string, DimSize>& sizes);

}  // namespace tilewright::graph
