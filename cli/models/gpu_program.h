// Programs of models for GPUs: what they may hold, and the seconds that the GPU model expects.
#pragma once

#include "graph/graph.h"
#include "kernel/target.h"

namespace tilewright::cli {

// Throws GraphError that names all nodes without a kernel for the GPU, with their reasons: workloads of
// which no candidate has code, and writes into states.
void require_gpu_nodes(const graph::Graph& graph, const Target& target);

}  // namespace tilewright::cli
