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

// One statement, with the sizes of its indices, those on the left first, and the type of its result.
struct Stage {
  ops::Statement statement;
  Indices indices;
  ElemType elem = ElemType::f32;

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
// The same, where stages may also be of bf16, i32, i8 or u8.
std::optional<Text> typed_text_of(const Node& node);
// The node that computes a text: inputs X0, …, stages in between T0, …, and Y. Nothing where that is no
// legal workload, or where a number of its statements stands for a size.
std::optional<Node> node_of(Text text, const std::string& label, size_t output);

// Gives tensors, inputs and indices of a text names that begin with `with`.
void prefix(Text* text, const std::string& with);
void rename_tensors(Stage* stage, const std::map<std::string, std::string>& names);

// The input of this name; null where there is none.
TextInput* input_of(Text* text, const std::string& name);
// How often the stages read the tensor.
int reads_of(const Text& text, const std::string& tensor);
// The sizes alone.
Shape sizes_of(const Indices& axes);
// Indices "i0", "i1", … of an array.
Indices indices_over(const Shape& shape);
// The tensor's element at these indices.
ops::Syntax element_at(const std::string& tensor, const Indices& axes);
// A stage of f32 with these indices on the left.
Stage stage_over(const Indices& axes, const Indices& reduced, const std::string& target,
                 const std::string& assignment, ops::Syntax value);

// Calls `fn` with each node of a tree, leaves first.
template <class Tree, class Fn>
void walk(Tree* s, const Fn& fn) {
  for (auto& arg : s->args) walk(&arg, fn);
  fn(s);
}

bool is_read(const ops::Syntax& s);
bool is_name(const ops::Syntax& s, const std::string& name);
bool is_zero(const ops::Syntax& s);

ops::Syntax name_syntax(const std::string& name);
ops::Syntax number_syntax(int64_t value);
ops::Syntax read_syntax(const std::string& tensor, std::vector<ops::Syntax> args);
ops::Syntax binary_syntax(const std::string& op, ops::Syntax a, ops::Syntax b);
ops::Syntax call_syntax(const std::string& function, std::vector<ops::Syntax> args);
// select(a op b, there, otherwise).
ops::Syntax select_syntax(const std::string& op, ops::Syntax a, ops::Syntax b, ops::Syntax there,
                          ops::Syntax otherwise);
// `value` with the trees in place of these names.
void substitute(ops::Syntax* value, const std::map<std::string, ops::Syntax>& trees);

}  // namespace tilewright::graph
