#include "graph/statements.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "graph/sizes.h"
#include "ir/ops/spec.h"
#include "models/onnx/extent.h"
#include "runtime/tensor/operands.h"

namespace tilewright::graph {
namespace {

using ops::Statement;
using ops::Syntax;

Syntax tree(Syntax::Kind kind, const std::string& text, std::vector<Syntax> args = {}) {
  Syntax s;
  s.kind = kind;
  s.text = text;
  s.args = std::move(args);
  return s;
}

// Types of stages: floats, codes of a byte and their sums.
bool is_taken(ElemType elem) {
  return elem == ElemType::f32 || elem == ElemType::bf16 || elem == ElemType::i32 ||
         elem == ElemType::i8 || elem == ElemType::u8;
}

std::optional<Stage> stage_of(Statement statement, const tilewright::Stage& own) {
  if (!is_taken(own.output->elem)) return std::nullopt;
  Stage stage{std::move(statement), {}, own.output->elem};
  if (stage.statement.indices.size() != own.axes.size()) return std::nullopt;
  for (size_t d = 0; d < own.axes.size(); ++d) {
    if (stage.statement.indices[d].text != own.axes[d].name()) return std::nullopt;
    auto extent = as_int(own.output->shape[d]);
    if (!extent) return std::nullopt;
    stage.indices.emplace_back(own.axes[d].name(), *extent);
  }
  for (const ReduceAxis& axis : own.reduce_axes) {
    auto extent = as_int(axis.extent);
    if (!extent) return std::nullopt;
    stage.indices.emplace_back(axis.var.name(), *extent);
  }
  return stage;
}

void rename_indices(Stage* stage, const std::map<std::string, std::string>& names) {
  auto rename = [&names](Syntax* at) {
    auto it = at->kind == Syntax::Kind::Name ? names.find(at->text) : names.end();
    if (it != names.end()) at->text = it->second;
  };
  for (Syntax& index : stage->statement.indices) rename(&index);
  walk(&stage->statement.value, rename);
  for (auto& [name, size] : stage->indices) name = names.at(name);
}

// Names of the indices along each axis of the tensors that were made or read before.
using AxisNames = std::map<std::string, std::vector<std::string>>;

// A ranged size is a dimension of its own for each name, so that indices along one axis share one.
std::map<std::string, std::string> shared_names(const Stage& stage, const AxisNames& axes,
                                                const std::map<std::string, int64_t>& dims) {
  const std::map<std::string, int64_t> sizes(stage.indices.begin(), stage.indices.end());
  std::map<std::string, std::string> names;
  std::set<std::string> taken;
  walk(&stage.statement.value, [&](const Syntax* s) {
    const auto known = axes.find(s->text);
    if (!is_read(*s) || known == axes.end() || known->second.size() != s->args.size()) return;
    for (size_t d = 0; d < s->args.size(); ++d) {
      const std::string &own = s->args[d].text, &other = known->second[d];
      const bool ranged =
          s->args[d].kind == Syntax::Kind::Name && onnx::has_stand_in(sizes.at(own));
      if (!ranged || other.empty() || dims.at(other) != sizes.at(own)) continue;
      if (!names.contains(own) && taken.insert(other).second) names[own] = other;
    }
  });
  return names;
}

// Index names of a stage by its axes: "i0", "i1" on the left, "r0", … of reductions. "i0_1" is the second
// size of that place.
void number_indices(Stage* stage, std::map<std::string, int64_t>* dims, AxisNames* axes) {
  std::map<std::string, std::string> names = shared_names(*stage, *axes, *dims);
  std::set<std::string> taken;
  for (const auto& [own, name] : names) taken.insert(name);
  const size_t left = stage->statement.indices.size();
  for (size_t i = 0; i < stage->indices.size(); ++i) {
    const auto& [name, size] = stage->indices[i];
    if (names.contains(name)) continue;
    const std::string place = i < left ? fmt::format("i{}", i) : fmt::format("r{}", i - left);
    std::string fresh = place;
    for (int k = 1; taken.contains(fresh) || dims->emplace(fresh, size).first->second != size;
         ++k) {
      fresh = fmt::format("{}_{}", place, k);
    }
    taken.insert(fresh);
    names[name] = fresh;
  }
  rename_indices(stage, names);
  const auto note = [&](const std::string& tensor, const std::vector<Syntax>& indices) {
    std::vector<std::string>& known = axes->try_emplace(tensor, indices.size()).first->second;
    for (size_t d = 0; d < indices.size() && d < known.size(); ++d) {
      if (known[d].empty() && indices[d].kind == Syntax::Kind::Name) known[d] = indices[d].text;
    }
  };
  walk(&stage->statement.value, [&](const Syntax* s) {
    if (is_read(*s)) note(s->text, s->args);
  });
  note(stage->statement.target, stage->statement.indices);
}

// The spec of the statements with names of their own.
nlohmann::ordered_json spec_of(Text text, std::map<std::string, size_t>* operands) {
  std::map<std::string, std::string> names;
  nlohmann::ordered_json shapes = nlohmann::ordered_json::object(), types = shapes,
                         weights = nlohmann::ordered_json::array();
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
  AxisNames axes;
  std::vector<Statement> statements;
  for (Stage& stage : text.stages) {
    rename_tensors(&stage, names);
    number_indices(&stage, &dims, &axes);
    statements.push_back(stage.statement);
  }
  nlohmann::ordered_json spec = {{"op", "expr"}, {"expr", ops::spell(statements)}, {"dims", dims}};
  spec["shapes"] = shapes;
  if (!types.empty()) spec["dtypes"] = types;
  if (!weights.empty()) spec["weights"] = weights;
  return spec;
}

}  // namespace

std::vector<Statement> statements_of(const Workload& workload) {
  std::string lines = tilewright::to_string(workload);
  std::replace(lines.begin(), lines.end(), '\n', ';');
  std::vector<Statement> statements;
  try {
    // An expression's own text has no conversions between types.
    if (workload.op == "expr") {
      lines = nlohmann::json::parse(workload.canonical).at("expr").get<std::string>();
    }
    statements = ops::parse_statements(lines);
  } catch (const Error&) {
    return {};
  }
  if (statements.size() != workload.stages.size()) return {};
  return statements;
}

Indices Stage::axes() const {
  return {indices.begin(), indices.begin() + static_cast<int64_t>(statement.indices.size())};
}

std::optional<Text> text_of(const Node& node) {
  auto text = typed_text_of(node);
  const auto is_f32 = [](const Stage& s) { return s.elem == ElemType::f32; };
  return text && std::ranges::all_of(text->stages, is_f32) ? text : std::nullopt;
}

std::optional<Text> typed_text_of(const Node& node) {
  static const std::set<std::string> kOps = {"expr", "matmul", "conv1d", "conv2d", "conv3d"};
  if (!node.is_workload()) return std::nullopt;
  const auto [spec, w] = parse_spec_and_build(node.spec);
  if (!kOps.contains(spec.op) || spec.get<std::string>("acc") != "f32") return std::nullopt;
  if (w.weight) return std::nullopt;
  Text text;
  for (const OperandInfo& o : operands_of(w, {})) {
    if (o.role == ParamRole::Output) continue;
    text.inputs.push_back(
        {o.name, node.operands.at(o.name), o.shape, o.elem, o.role == ParamRole::Weight});
  }
  std::vector<Statement> statements = statements_of(w);
  if (statements.size() != w.stages.size()) return std::nullopt;
  for (size_t s = 0; s < statements.size(); ++s) {
    auto stage = stage_of(std::move(statements[s]), w.stages[s]);
    if (!stage) return std::nullopt;
    text.stages.push_back(std::move(*stage));
  }
  return text;
}

std::optional<Node> node_of(Text text, const std::string& label, size_t output) {
  Node node;
  node.label = label;
  node.output = output;
  try {
    const nlohmann::ordered_json spec = spec_of(std::move(text), &node.operands);
    if (holds_stand_in(spec["expr"].get<std::string>())) return std::nullopt;
    node.spec = spec_to_inline(parse_spec(spec.dump()));
  } catch (const Error&) {
    return std::nullopt;  // more operators than an expression may have
  }
  return node;
}

void rename_tensors(Stage* stage, const std::map<std::string, std::string>& names) {
  auto renamed = [&](const std::string& name) {
    auto it = names.find(name);
    return it == names.end() ? name : it->second;
  };
  stage->statement.target = renamed(stage->statement.target);
  walk(&stage->statement.value, [&](Syntax* s) {
    if (is_read(*s)) s->text = renamed(s->text);
  });
}

void prefix(Text* text, const std::string& with) {
  std::map<std::string, std::string> names;
  for (TextInput& input : text->inputs) {
    names[input.name] = with + input.name;
    input.name = with + input.name;
  }
  for (const Stage& stage : text->stages) {
    names[stage.statement.target] = with + stage.statement.target;
  }
  for (Stage& stage : text->stages) {
    rename_tensors(&stage, names);
    std::map<std::string, std::string> fresh;
    for (const auto& [name, size] : stage.indices) fresh[name] = with + name;
    rename_indices(&stage, fresh);
  }
}

TextInput* input_of(Text* text, const std::string& name) {
  const auto it = std::ranges::find(text->inputs, name, &TextInput::name);
  return it == text->inputs.end() ? nullptr : &*it;
}

int reads_of(const Text& text, const std::string& tensor) {
  int count = 0;
  for (const Stage& stage : text.stages) {
    walk(&stage.statement.value,
         [&](const Syntax* s) { count += is_read(*s) && s->text == tensor ? 1 : 0; });
  }
  return count;
}

Shape sizes_of(const Indices& axes) {
  Shape sizes;
  for (const auto& [name, size] : axes) sizes.push_back(size);
  return sizes;
}

Indices indices_over(const Shape& shape) {
  Indices indices;
  for (size_t d = 0; d < shape.size(); ++d) indices.emplace_back(fmt::format("i{}", d), shape[d]);
  return indices;
}

Syntax element_at(const std::string& tensor, const Indices& axes) {
  std::vector<Syntax> args;
  for (const auto& [name, size] : axes) args.push_back(name_syntax(name));
  return read_syntax(tensor, std::move(args));
}

Stage stage_over(const Indices& axes, const Indices& reduced, const std::string& target,
                 const std::string& assignment, Syntax value) {
  Stage stage;
  stage.statement.target = target;
  stage.statement.assignment = assignment;
  for (const auto& [name, size] : axes) stage.statement.indices.push_back(name_syntax(name));
  stage.statement.value = std::move(value);
  stage.indices = axes;
  stage.indices.insert(stage.indices.end(), reduced.begin(), reduced.end());
  return stage;
}

bool is_read(const Syntax& s) { return s.kind == Syntax::Kind::Read; }

bool is_name(const Syntax& s, const std::string& name) {
  return s.kind == Syntax::Kind::Name && s.text == name;
}

bool is_zero(const Syntax& s) { return s.kind == Syntax::Kind::Number && s.text == "0"; }

Syntax name_syntax(const std::string& name) { return tree(Syntax::Kind::Name, name); }

Syntax number_syntax(int64_t value) { return tree(Syntax::Kind::Number, std::to_string(value)); }

Syntax read_syntax(const std::string& tensor, std::vector<Syntax> args) {
  return tree(Syntax::Kind::Read, tensor, std::move(args));
}

Syntax binary_syntax(const std::string& op, Syntax a, Syntax b) {
  return tree(Syntax::Kind::Binary, op, {std::move(a), std::move(b)});
}

Syntax call_syntax(const std::string& function, std::vector<Syntax> args) {
  return tree(Syntax::Kind::Call, function, std::move(args));
}

Syntax select_syntax(const std::string& op, Syntax a, Syntax b, Syntax there, Syntax otherwise) {
  Syntax test = tree(Syntax::Kind::Compare, op, {std::move(a), std::move(b)});
  return call_syntax("select", {std::move(test), std::move(there), std::move(otherwise)});
}

void substitute(Syntax* value, const std::map<std::string, Syntax>& trees) {
  if (value->kind == Syntax::Kind::Name) {
    auto it = trees.find(value->text);
    if (it != trees.end()) *value = it->second;
    return;
  }
  for (Syntax& arg : value->args) substitute(&arg, trees);
}

}  // namespace tilewright::graph
