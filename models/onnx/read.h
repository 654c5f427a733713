// The messages of a model that others hold.
#pragma once

#include <string>

#include "models/onnx/model.h"
#include "models/onnx/wire.h"

namespace tilewright::onnx {

// `what` is what messages call it. Throws FileError.
Tensor read_tensor(const Field& field, const std::string& what);

// Puts the nodes of the graphs that nodes hold in front of these: see Node::within.
void enter_graphs_of_nodes(GraphPart* graph);

}  // namespace tilewright::onnx
