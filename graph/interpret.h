// The meaning of graphs, and what follows from it: constants that need no run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ir/oracle/evaluate.h"

namespace tilewright::graph {

// The elements of each output, given those of each input by its name. Each node is computed by the
// oracle of its workload, in f64, and rounded to the type of its output. States begin with the elements
// that `states` has under their names, zeros where it has none, and leave theirs there. Throws GraphError
// for an input that is missing or has another number of bytes, and for a row at which no write may begin.
// `shapes` are those of the outputs, at the sizes that plain nodes say.
std::vector<Bytes> interpret(const Graph& graph, const std::map<std::string, Bytes>& inputs,
                             std::map<std::string, Bytes>* states,
                             const Oracle::ParallelFn& parallel = {},
                             std::vector<Shape>* shapes = nullptr);
// The same, where states begin with zeros and are forgotten.
std::vector<Bytes> interpret(const Graph& graph, const std::map<std::string, Bytes>& inputs,
                             const Oracle::ParallelFn& parallel = {});

// Computes what depends on constants alone, and leaves out what no output needs.
void fold_constants(Graph* graph, const Oracle::ParallelFn& parallel = {});
// Leaves out nodes and values that no output and no write needs, but inputs and states.
void drop_unused(Graph* graph);

}  // namespace tilewright::graph
