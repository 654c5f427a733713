#include "graph/fuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

#include "graph/interpret.h"
#include "graph/statements.h"
#include "ir/ops/expr/expr_syntax.h"
#include "ir/ops/spec.h"
#include "runtime/tensor/operands.h"

namespace tilewright::graph {
namespace {

using ops::Statement;
using ops::Syntax;

// One statement, with the sizes of its indices: those on the left first.
struct Stage {
  Statement statement;
  std::vector<std::pair<std::string, int64_t>> indices;
};

struct Input {
  std::string name;
  size_t value = 0;
  Shape shape;
  bool weight = false;
};

// A workload as statements over named inputs, the last of which makes its output.
struct Text {
  std::vector<Stage> stages;
  std::vector<Input> inputs;
};

// Nothing for a workload that an `expr` of f32 cannot say.
std::optional<Text> text_of(const Graph& graph, const Node& node) {
  static const std::set<std::string> kOps = {"expr", "matmul", "conv1d", "conv2d", "conv3d"};
  const Workload w = parse_workload(node.spec);
  if (!kOps.contains(w.op) || w.weight) return std::nullopt;
  Text text;
  const std::vector<OperandInfo> operands = operands_of(w, {});
  for (const OperandInfo& o : operands) {
    if (o.elem != ElemType::f32) return std::nullopt;
    if (o.role == ParamRole::Output) continue;
    text.inputs.push_back({o.name, node.operands.at(o.name), o.shape, o.role == ParamRole::Weight});
  }
  std::vector<Statement> statements = statements_of(w);
  if (statements.empty()) return std::nullopt;
  for (size_t s = 0; s < statements.size(); ++s) {
    Stage stage{std::move(statements[s]), {}};
    const tilewright::Stage& own = w.stages[s];
    for (size_t d = 0; d < own.axes.size(); ++d) {
      auto extent = as_int(own.output->shape[d]);
      if (!extent) return std::nullopt;
      stage.indices.emplace_back(own.axes[d].name(), *extent);
    }
    for (const ReduceAxis& axis : own.reduce_axes) {
      auto extent = as_int(axis.extent);
      if (!extent) return std::nullopt;
      stage.indices.emplace_back(axis.var.name(), *extent);
    }
    text.stages.push_back(std::move(stage));
  }
  return text;
}

// Calls `fn` with each node of a tree, leaves first.
template <class Fn>
void walk(Syntax* s, const Fn& fn) {
  for (Syntax& arg : s->args) walk(&arg, fn);
  fn(s);
}

Syntax name_syntax(const std::string& name) {
  Syntax s;
  s.kind = Syntax::Kind::Name;
  s.text = name;
  return s;
}

Syntax zero_syntax() {
  Syntax s;
  s.kind = Syntax::Kind::Number;
  s.text = "0";
  return s;
}

// Index names of a stage by its axes: "i0", "i1" on the left, "r0", … of reductions. "i0_1" is the second
// size of that place.
void rename_indices(Stage* stage, std::map<std::string, int64_t>* dims) {
  std::map<std::string, std::string> names;
  const size_t left = stage->statement.indices.size();
  for (size_t i = 0; i < stage->indices.size(); ++i) {
    auto& [name, size] = stage->indices[i];
    const std::string place = i < left ? fmt::format("i{}", i) : fmt::format("r{}", i - left);
    std::string fresh = place;
    for (int k = 1; dims->emplace(fresh, size).first->second != size; ++k) {
      fresh = fmt::format("{}_{}", place, k);
    }
    names[name] = fresh;
    name = fresh;
  }
  auto rename = [&names](Syntax* at) {
    auto it = at->kind == Syntax::Kind::Name ? names.find(at->text) : names.end();
    if (it != names.end()) at->text = it->second;
  };
  for (Syntax& index : stage->statement.indices) rename(&index);
  walk(&stage->statement.value, rename);
}

void rename_tensors(Stage* stage, const std::map<std::string, std::string>& names) {
  auto renamed = [&](const std::string& name) {
    auto it = names.find(name);
    return it == names.end() ? name : it->second;
  };
  stage->statement.target = renamed(stage->statement.target);
  walk(&stage->statement.value, [&](Syntax* s) {
    if (s->kind == Syntax::Kind::Read) s->text = renamed(s->text);
  });
}

// The statements of both with names of their own: inputs X0, …, stages in between T0, …, and Y.
nlohmann::ordered_json spec_of(Text text, std::map<std::string, size_t>* operands) {
  std::map<std::string, std::string> names;
  nlohmann::ordered_json shapes = nlohmann::ordered_json::object(),
                         weights = nlohmann::ordered_json::array();
  for (const Input& input : text.inputs) {
    const std::string name = fmt::format("X{}", operands->size());
    names[input.name] = name;
    (*operands)[name] = input.value;
    shapes[name] = input.shape;
    if (input.weight) weights.push_back(name);
  }
  for (size_t s = 0; s < text.stages.size(); ++s) {
    names[text.stages[s].statement.target] =
        s + 1 == text.stages.size() ? "Y" : fmt::format("T{}", s);
  }
  std::map<std::string, int64_t> dims;
  std::vector<Statement> statements;
  for (size_t s = 0; s < text.stages.size(); ++s) {
    rename_tensors(&text.stages[s], names);
    rename_indices(&text.stages[s], &dims);
    statements.push_back(text.stages[s].statement);
  }
  nlohmann::ordered_json spec = {{"op", "expr"}, {"expr", ops::spell(statements)}, {"dims", dims}};
  spec["shapes"] = shapes;
  if (!weights.empty()) spec["weights"] = weights;
  return spec;
}

// Gives tensors of a text names that the other has not.
void prefix(Text* text, const std::string& with) {
  std::map<std::string, std::string> names;
  for (Input& input : text->inputs) {
    names[input.name] = with + input.name;
    input.name = with + input.name;
  }
  for (const Stage& stage : text->stages) {
    names[stage.statement.target] = with + stage.statement.target;
  }
  for (Stage& stage : text->stages) rename_tensors(&stage, names);
}

// The consumer's statement over the axes of what is read, of which it has as many elements: the axes of
// one element go away or come. False where the two do not agree.
bool move_to_axes(Stage* stage, const std::vector<std::pair<std::string, int64_t>>& axes,
                  const std::set<std::string>& read) {
  std::map<std::string, Syntax> places;
  std::vector<Syntax> left;
  std::vector<std::pair<std::string, int64_t>> indices;
  size_t own = 0;
  auto skip = [&] {
    while (own < stage->indices.size() && stage->indices[own].second == 1) {
      places[stage->indices[own++].first] = zero_syntax();
    }
  };
  for (const auto& [axis, size] : axes) {
    indices.emplace_back("a_" + axis, size);
    left.push_back(name_syntax("a_" + axis));
    if (size == 1) continue;
    skip();
    if (own == stage->indices.size() || stage->indices[own].second != size) return false;
    places[stage->indices[own++].first] = name_syntax("a_" + axis);
  }
  skip();
  if (own != stage->indices.size()) return false;
  // Reads of what is made are of the same element.
  bool same = true;
  std::vector<std::string> order;
  for (const Syntax& index : stage->statement.indices) order.push_back(index.text);
  walk(&stage->statement.value, [&](Syntax* s) {
    if (s->kind != Syntax::Kind::Read || !read.contains(s->text)) return;
    same = same && s->args.size() == order.size();
    for (size_t d = 0; same && d < order.size(); ++d) {
      const bool zero = s->args[d].kind == Syntax::Kind::Number && stage->indices[d].second == 1;
      same = zero || (s->args[d].kind == Syntax::Kind::Name && s->args[d].text == order[d]);
    }
  });
  if (!same) return false;
  walk(&stage->statement.value, [&](Syntax* s) {
    if (s->kind == Syntax::Kind::Read && read.contains(s->text)) {
      s->args = left;
      return;
    }
    auto it = s->kind == Syntax::Kind::Name ? places.find(s->text) : places.end();
    if (it != places.end()) *s = it->second;
  });
  stage->statement.indices = left;
  stage->indices = indices;
  return true;
}

// One node of a producer and the only node that reads it; nothing where they do not make one.
std::optional<Node> fused(const Graph& graph, const Node& producer, const Node& consumer) {
  auto second = text_of(graph, consumer);
  const auto is_function = [](const Stage& s) { return s.statement.assignment == "="; };
  if (!second || !std::ranges::all_of(second->stages, is_function)) return std::nullopt;
  auto first = text_of(graph, producer);
  if (!first) return std::nullopt;
  std::set<std::string> read;  // tensors of which each statement reads the element that it makes
  for (const Input& input : second->inputs) {
    if (input.value == producer.output) read.insert("c_" + input.name);
  }
  prefix(&*second, "c_");
  prefix(&*first, "p_");
  const Stage& made = first->stages.back();
  const std::vector<std::pair<std::string, int64_t>> axes(
      made.indices.begin(),
      made.indices.begin() + static_cast<int64_t>(made.statement.indices.size()));
  std::map<std::string, std::string> names;
  for (const std::string& name : read) names[name] = made.statement.target;
  for (Stage& stage : second->stages) {
    if (!move_to_axes(&stage, axes, read)) return std::nullopt;
    read.insert(stage.statement.target);
  }
  Text both = std::move(*first);
  for (const Input& input : second->inputs) {
    if (names.contains(input.name)) continue;
    auto known = std::find_if(both.inputs.begin(), both.inputs.end(), [&](const Input& i) {
      return i.value == input.value && i.shape == input.shape;
    });
    if (known == both.inputs.end()) {
      both.inputs.push_back(input);
    } else {
      names[input.name] = known->name;
    }
  }
  for (Stage& stage : second->stages) {
    rename_tensors(&stage, names);
    both.stages.push_back(std::move(stage));
  }
  Node node;
  node.label = producer.label;
  node.output = consumer.output;
  try {
    node.spec = spec_to_inline(parse_spec(spec_of(both, &node.operands).dump()));
    parse_workload(node.spec);
  } catch (const Error&) {
    return std::nullopt;  // more operators than an expression may have
  }
  return node;
}

class Fuser {
 public:
  explicit Fuser(Graph* graph) : graph_(*graph) {}

  // One pass; the number of nodes that went away.
  int run() {
    const std::vector<std::vector<size_t>> users = users_of();
    std::vector<bool> gone(graph_.nodes.size(), false);
    int count = 0;
    for (size_t p = 0; p < graph_.nodes.size(); ++p) {
      const Node& producer = graph_.nodes[p];
      const std::vector<size_t>& readers = users[producer.output];
      if (gone[p] || producer.is_view() || readers.size() != 1 || gone[readers[0]]) continue;
      const size_t c = readers[0];
      if (graph_.nodes[c].is_view()) continue;
      auto node = fused(graph_, producer, graph_.nodes[c]);
      if (!node) continue;
      graph_.nodes[c] = std::move(*node);  // there, since its other operands were made before
      gone[p] = true;
      ++count;
    }
    std::vector<Node> rest;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!gone[n]) rest.push_back(std::move(graph_.nodes[n]));
    }
    graph_.nodes = std::move(rest);
    return count;
  }

 private:
  // The nodes that read each value, once each; one that is none for an output of the graph.
  std::vector<std::vector<size_t>> users_of() const {
    std::vector<std::set<size_t>> sets(graph_.values.size());
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (const auto& [name, value] : graph_.nodes[n].operands) sets[value].insert(n);
    }
    std::vector<std::vector<size_t>> users;
    for (const auto& set : sets) users.emplace_back(set.begin(), set.end());
    for (size_t i : graph_.outputs) users[i].clear();
    return users;
  }

  Graph& graph_;
};

// Lets workloads read what a view shows in another shape, so that none stands between producer and reader.
void look_through_views(Graph* graph) {
  std::vector<size_t> shown(graph->values.size());
  std::iota(shown.begin(), shown.end(), size_t{0});
  for (Node& node : graph->nodes) {
    if (!node.is_view()) {
      for (auto& [name, value] : node.operands) value = shown[value];
      continue;
    }
    const size_t from = node.parts()[0];
    const bool all = graph->values[from].count() == graph->values[node.output].count();
    if (all) shown[node.output] = shown[from];
  }
}

}  // namespace

int fuse(Graph* graph) {
  look_through_views(graph);
  drop_unused(graph);
  int count = 0;
  while (const int more = Fuser(graph).run()) count += more;
  drop_unused(graph);
  return count;
}

}  // namespace tilewright::graph
