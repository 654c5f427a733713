// Workloads as the statements of an `expr`: the form in which passes join nodes and change them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ir/ops/expr/expr_syntax.h"
#include "ir/tensor_expr.h"

namespace tilewright::graph {

// A statement per stage of the workload. Empty where the text of a stage is none of an `expr`.
std::vector<ops::Statement> statements_of(const Workload& workload);

// One statement, with the sizes of its indices, those on the left first, and the type of its result.
struct TextStage {
  ops::Statement statement;
  std::vector<std::pair<std::string, int64_t>> indices;
  ElemType elem = ElemType::f32;
};

struct TextInput {
  std::string name;
  size_t value = 0;
  Shape shape;
  bool weight = false;
  ElemType elem = ElemType::f32;
};

// A node as statements over named inputs, the last of which makes its output.
struct NodeText {
  std::vector<TextStage> stages;
  std::vector<TextInput> inputs;
};

// Nothing for a workload that no `expr` of f32 and bf16 elements, computed in f32, says.
std::optional<NodeText> text_of(const Graph& graph, const Node& node);
// Sets the node's spec and operands to an `expr` with names of its own: inputs X0, …, stages in between
// T0, …, and Y. False where it would have more operators than an expression may have.
bool set_text(Node* node, NodeText text);

// Calls `fn` with each node of a tree, leaves first.
void walk(ops::Syntax* s, const std::function<void(ops::Syntax*)>& fn);
void rename_tensors(TextStage* stage, const std::map<std::string, std::string>& names);

}  // namespace tilewright::graph
