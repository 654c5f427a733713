// Nodes that differ in numbers alone become nodes of one workload.
#pragma once

#include <string>

#include "graph/graph.h"

namespace tilewright::graph {

// Expressions that are the same but for numbers read these from constants, so that one search finds the
// kernel of all of them. Before -> after:
//   "a": f32[8] = "expr:… Y[i] = X0[i] * 0.5" (X0="x")
//   "b": f32[8] = "expr:… Y[i] = X0[i] * 0.25" (X0="a")
//   ->
//   "a": f32[8] = "expr:… Y[i] = X0[i] * X1[0]" (X0="x", X1="a/0.5")
//   "b": f32[8] = "expr:… Y[i] = X0[i] * X1[0]" (X0="a", X1="b/0.25")
// Numbers that all of them have in common stay where they are. Returns the number of workloads that went
// away.
int share_workloads(Graph* graph);

// The node's spec with 1 in the place of each number that it calculates with: nodes that differ in these alone share
// a workload. The spec itself for what is no expression.
std::string spec_without_numbers(const Node& node);

}  // namespace tilewright::graph
