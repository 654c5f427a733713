#include "graph/statements.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "ir/ops/spec.h"
#include "runtime/tensor/operands.h"

namespace tilewright::graph {
namespace {

using ops::Statement;
using ops::Syntax;

bool is_taken(ElemType elem) { return elem == ElemType::f32 || elem == ElemType::bf16; }

// Index names of a stage by its axes: "i0", "i1" on the left, "r0", … of reductions. "i0_1" is the second
// size of that place.
void rename_indices(TextStage* stage, std::map<std::string, int64_t>* dims) {
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

// The statements, types and sizes with names of their own, as a spec.
nlohmann::ordered_json spec_of(NodeText text, std::map<std::string, size_t>* operands) {
  std::map<std::string, std::string> names;
  nlohmann::ordered_json shapes = nlohmann::ordered_json::object(),
                         weights = nlohmann::ordered_json::array(),
                         types = nlohmann::ordered_json::object();
  auto note_type = [&](const std::string& name, ElemType elem) {
    if (elem != ElemType::f32) types[name] = std::string(to_string(elem));
  };
  for (const TextInput& input : text.inputs) {
    const std::string name = fmt::format("X{}", operands->size());
    names[input.name] = name;
    (*operands)[name] = input.value;
    shapes[name] = input.shape;
    note_type(name, input.elem);
    if (input.weight) weights.push_back(name);
  }
  for (size_t s = 0; s < text.stages.size(); ++s) {
    const std::string name = s + 1 == text.stages.size() ? "Y" : fmt::format("T{}", s);
    names[text.stages[s].statement.target] = name;
    note_type(name, text.stages[s].elem);
  }
  std::map<std::string, int64_t> dims;
  std::vector<Statement> statements;
  for (TextStage& stage : text.stages) {
    rename_tensors(&stage, names);
    rename_indices(&stage, &dims);
    statements.push_back(stage.statement);
  }
  nlohmann::ordered_json spec = {{"op", "expr"}, {"expr", ops::spell(statements)}, {"dims", dims}};
  if (!types.empty()) spec["dtypes"] = types;
  spec["shapes"] = shapes;
  if (!weights.empty()) spec["weights"] = weights;
  return spec;
}

}  // namespace

std::vector<ops::Statement> statements_of(const Workload& workload) {
  std::string lines = tilewright::to_string(workload);
  std::replace(lines.begin(), lines.end(), '\n', ';');
  std::vector<ops::Statement> statements;
  try {
    // An expression's own text has no conversions between types.
    if (workload.op == "expr") lines = parse_spec(workload.canonical).get<std::string>("expr");
    statements = ops::parse_statements(lines);
  } catch (const Error&) {
    return {};
  }
  if (statements.size() != workload.stages.size()) return {};
  return statements;
}

std::optional<NodeText> text_of(const Graph& graph, const Node& node) {
  static const std::set<std::string> kOps = {"expr", "matmul", "conv1d", "conv2d", "conv3d"};
  const Workload w = parse_workload(node.spec);
  if (!kOps.contains(w.op) || w.weight) return std::nullopt;
  NodeText text;
  for (const OperandInfo& o : operands_of(w, {})) {
    if (!is_taken(o.elem)) return std::nullopt;
    if (o.role == ParamRole::Output) continue;
    text.inputs.push_back(
        {o.name, node.operands.at(o.name), o.shape, o.role == ParamRole::Weight, o.elem});
  }
  std::vector<Statement> statements = statements_of(w);
  if (statements.empty()) return std::nullopt;
  for (size_t s = 0; s < statements.size(); ++s) {
    const Stage& own = w.stages[s];
    if (!is_taken(own.output->elem)) return std::nullopt;
    TextStage stage{std::move(statements[s]), {}, own.output->elem};
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

bool set_text(Node* node, NodeText text) {
  Node made = *node;
  made.operands.clear();
  try {
    made.spec = spec_to_inline(parse_spec(spec_of(std::move(text), &made.operands).dump()));
    parse_workload(made.spec);
  } catch (const Error&) {
    return false;
  }
  *node = std::move(made);
  return true;
}

void walk(Syntax* s, const std::function<void(Syntax*)>& fn) {
  for (Syntax& arg : s->args) walk(&arg, fn);
  fn(s);
}

void rename_tensors(TextStage* stage, const std::map<std::string, std::string>& names) {
  auto renamed = [&](const std::string& name) {
    auto it = names.find(name);
    return it == names.end() ? name : it->second;
  };
  stage->statement.target = renamed(stage->statement.target);
  walk(&stage->statement.value, [&](Syntax* s) {
    if (s->kind == Syntax::Kind::Read) s->text = renamed(s->text);
  });
}

}  // namespace tilewright::graph
