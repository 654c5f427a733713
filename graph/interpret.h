// The meaning of graphs, and what follows from it: constants that need no run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ir/oracle/evaluate.h"

namespace tilewright::graph {

// The elements of each output, given those of each input by its name. Each node is computed by the
// oracle of its workload, in f64, and rounded to the type of its output. Throws GraphError for an input
// that is missing or has another number of bytes.
std::vector<Bytes> interpret(const Graph& graph, const std::map<std::string, Bytes>& inputs,
                             const Oracle::ParallelFn& parallel = {});

// Computes what depends on constants alone, and leaves out what no output needs.
void fold_constants(Graph* graph, const Oracle::ParallelFn& parallel = {});
// Leaves out nodes and values that no output needs, but inputs.
void drop_unused(Graph* graph);

}  // namespace tilewright::graph
