// Workloads as the statements of an `expr`, and such statements as nodes.
#pragma once

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

using Indices = std::vector<std::pair<std::string, int64_t>>;  // names with sizes

// One statement, with the sizes of its indices: those on the left first.
struct Stage {
  ops::Statement statement;
  Indices indices;

  bool is_function() const { return statement.assignment == "="; }
  // The indices on the left.
  Indices axes() const;
};

struct TextInput {
  std::string name;
  size_t value = 0;
  Shape shape;
  ElemType elem = ElemType::f32;
  bool weight = false;
};

// A workload as statements over named inputs, the last of which makes its output.
struct Text {
  std::vector<Stage> stages;
  std::vector<TextInput> inputs;
};

// Nothing for a workload that an `expr` whose stages are all of f32 cannot say.
std::optional<Text> text_of(const Node& node);
// The node that computes a text: inputs X0, …, stages in between T0, …, and Y. Nothing where that is no
// legal workload.
std::optional<Node> node_of(Text text, const std::string& label, size_t output);

// Gives tensors, inputs and indices of a text names that begin with `with`.
void prefix(Text* text, const std::string& with);
void rename_tensors(Stage* stage, const std::map<std::string, std::string>& names);

// Calls `fn` with each node of a tree, leaves first.
template <class Fn>
void walk(ops::Syntax* s, const Fn& fn) {
  for (ops::Syntax& arg : s->args) walk(&arg, fn);
  fn(s);
}

ops::Syntax name_syntax(const std::string& name);
ops::Syntax number_syntax(int64_t value);
ops::Syntax read_syntax(const std::string& tensor, std::vector<ops::Syntax> args);
ops::Syntax binary_syntax(const std::string& op, ops::Syntax a, ops::Syntax b);
// `value` with the trees in place of these names.
void substitute(ops::Syntax* value, const std::map<std::string, ops::Syntax>& trees);

}  // namespace tilewright::graph
