#include "graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/loops/loops.h"
#include "graph/places.h"
#include "graph/plain/plain.h"
#include "graph/rows.h"
#include "graph/sizes.h"
#include "ir/ops/spec.h"
#include "runtime/tensor/operands.h"

namespace tilewright::graph {
namespace {

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw GraphError(fmt::format("'{}': {}", where, why));
}

int64_t checked_elements(const Value& v) {
  for (int64_t s : v.shape) {
    if (s < 1) refuse(v.name, fmt::format("a size is {}; expected 1 or more", s));
  }
  const auto count = element_count(v.shape);
  if (!count) refuse(v.name, "it has too many elements");
  return *count;
}

void verify_value(const Value& v) {
  const int64_t count = checked_elements(v);
  if (v.elem == ElemType::index || v.elem == ElemType::boolean) {
    refuse(v.name, fmt::format("no value has elements of {}", to_string(v.elem)));
  }
  if (v.constant && v.data != nullptr &&
      static_cast<int64_t>(v.data->size()) != bytes_for(v.elem, count)) {
    refuse(v.name,
           fmt::format("it has {} bytes; expected {}", v.data->size(), bytes_for(v.elem, count)));
  }
}

void verify_same(const std::string& label, const Value& v, const OperandInfo& operand) {
  int64_t count = 1;
  for (int64_t s : operand.shape) count *= s;
  if (v.elem != operand.elem || v.count() != count) {
    refuse(label,
           fmt::format("operand {} is '{}' of {} elements of {}; expected {} of {}", operand.name,
                       v.name, v.count(), to_string(v.elem), count, to_string(operand.elem)));
  }
}

void verify_workload(const Graph& graph, const Node& node, const std::vector<bool>& known) {
  Workload workload;
  try {
    workload = parse_workload(node.spec);
  } catch (const Error& e) {
    const std::string what = e.what();
    refuse(node.label, what.substr(0, what.find('\n')));
  }
  if (!workload.dims.empty()) refuse(node.label, "its spec has a range of sizes");
  const std::vector<OperandInfo> operands = operands_of(workload, {});
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool last = i + 1 == operands.size();
    auto bound = node.operands.find(operands[i].name);
    if (!last && bound == node.operands.end()) {
      refuse(node.label, fmt::format("operand {} is missing", operands[i].name));
    }
    const Value& v = graph.values[last ? node.output : bound->second];
    verify_same(node.label, v, operands[i]);
    if (!last && operands[i].role == ParamRole::Weight && !known[bound->second]) {
      refuse(node.label,
             fmt::format("operand {} has to be a constant, and '{}' is calculated; expected a "
                         "const of this program, or of the body of a loop that it is in",
                         operands[i].name, v.name));
    }
  }
  if (node.operands.size() + 1 != operands.size()) {
    refuse(node.label, fmt::format("it has {} operands; expected {}", node.operands.size(),
                                   operands.size() - 1));
  }
}

void verify_view(const Graph& graph, const Node& node) {
  const std::vector<size_t> parts = node.parts();
  const Value& out = graph.values[node.output];
  int64_t count = 0;
  for (size_t part : parts) {
    const Value& v = graph.values[part];
    count += v.count();
    if (v.elem != out.elem) count = -1;
    const bool ends =
        parts.size() == 1 ? node.first <= v.count() - out.count() : count <= out.count();
    if (count < 0 || node.first < 0 || !ends) {
      refuse(node.label, fmt::format("'{}' is no view of '{}': {} and {}", out.name, v.name,
                                     type_text(out), type_text(v)));
    }
  }
  if (parts.size() > 1 && (count != out.count() || node.first != 0)) {
    refuse(node.label, fmt::format("its parts have {} elements; expected {}", count, out.count()));
  }
}

// Rows go into a state, or into one that was written before, by an input.
void verify_write(const Graph& graph, const Node& node, const std::vector<bool>& is_state) {
  if (node.operands.size() != 3 || !node.operands.contains("X") || !node.operands.contains("R")) {
    refuse(node.label, "a write has the operands X, R and P");
  }
  const Value &state = graph.values[node.operands.at("X")],
              &first = graph.values[node.operands.at("P")], &out = graph.values[node.output];
  if (!is_state[node.operands.at("X")]) {
    refuse(node.label, fmt::format("'{}' is no state", state.name));
  }
  if (out.elem != state.elem || out.shape != state.shape) {
    refuse(node.label, fmt::format("'{}' is {}; expected {}, as '{}' is", out.name, type_text(out),
                                   type_text(state), state.name));
  }
  rows_of(graph, node);
  const bool given = std::ranges::count(graph.inputs, node.operands.at("P")) > 0;
  if (!given || first.elem != ElemType::i32 || first.count() != 1) {
    refuse(node.label, fmt::format("'{}' of {} says no row; expected an input of one i32",
                                   first.name, type_text(first)));
  }
}

// Which sizes are known: those that plain nodes say are, behind these.
class KnownSizes {
 public:
  explicit KnownSizes(const Graph& graph) : graph_(graph) {
    for (const Dim& d : graph.dims) said_.push_back(!d.by_value);
  }
  void say(const Node& node) {
    const size_t dim = PlainRoutine(graph_, node).dim();
    if (said_[dim]) {
      refuse(node.label, fmt::format("another node says the size '{}'", graph_.dims[dim].name));
    }
    said_[dim] = true;
  }
  void require(size_t value) const {
    const Size size = size_of(graph_, graph_.values[value].count());
    for (size_t d = 0; d < said_.size(); ++d) {
      if (size.powers[d] == 0 || said_[d]) continue;
      refuse(graph_.values[value].name,
             fmt::format("no plain node of this program or body says the size '{}' before; "
                         "expected one in front",
                         graph_.dims[d].name));
    }
  }

 private:
  const Graph& graph_;
  std::vector<bool> said_;
};

// Which values may be read: those that were made, of a state the last one.
class Legible {
 public:
  explicit Legible(const Graph& graph)
      : graph_(graph), made_(graph.values.size(), false), written_(made_), state_(made_) {}

  void make(size_t value, const std::string& where) {
    if (value >= made_.size()) refuse(where, "it names no value");
    if (made_[value]) refuse(graph_.values[value].name, "it is made twice");
    made_[value] = true;
  }
  void make_state(size_t value) {
    make(value, "states");
    state_[value] = true;
  }
  void read(size_t value, const std::string& where, const std::string& what) const {
    if (value >= made_.size() || !made_[value]) {
      refuse(where, fmt::format("{} was not made before", what));
    }
    if (written_[value]) {
      refuse(where, fmt::format("{} is '{}', which was written since; expected the write's output",
                                what, graph_.values[value].name));
    }
  }
  // The effect of a write behind its reads.
  void write(const Node& node) {
    verify_write(graph_, node, state_);
    written_[node.operands.at("X")] = true;
    state_[node.output] = true;
  }
  bool is_state(size_t value) const { return state_[value]; }

 private:
  const Graph& graph_;
  std::vector<bool> made_, written_, state_;
};

}  // namespace

std::optional<int64_t> element_count(const Shape& shape) {
  int64_t count = 1;
  for (int64_t s : shape) {
    if (__builtin_mul_overflow(count, s, &count) || count > (int64_t{1} << 40)) return std::nullopt;
  }
  return count;
}

int64_t Value::count() const {
  int64_t all = 1;
  for (int64_t s : shape) all *= s;
  return all;
}

std::vector<size_t> Node::parts() const {
  std::vector<size_t> parts;
  auto only = operands.find("X");
  if (only != operands.end()) parts.push_back(only->second);
  for (size_t i = 0; only == operands.end() && i < operands.size(); ++i) {
    auto part = operands.find(fmt::format("X{}", i));
    if (part != operands.end()) parts.push_back(part->second);
  }
  if (parts.empty() || parts.size() != operands.size()) {
    throw GraphError(fmt::format("'{}': a view is of one value or more", label));
  }
  return parts;
}

std::vector<size_t> Node::outputs() const {
  std::vector<size_t> all = {output};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

void set_parts(Node* node, const std::vector<size_t>& parts) {
  node->operands.clear();
  for (size_t i = 0; i < parts.size(); ++i) {
    node->operands[parts.size() == 1 ? "X" : fmt::format("X{}", i)] = parts[i];
  }
}

int64_t Value::bytes() const { return bytes_for(elem, count()); }

size_t Graph::add(Value value) {
  values.push_back(std::move(value));
  return values.size() - 1;
}

size_t Graph::find(const std::string& name) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].name == name) return i;
  }
  throw GraphError(fmt::format("there is no value '{}'", name));
}

void verify(const Graph& graph, Specs specs) {
  std::set<std::string> names;
  Legible legible(graph);
  KnownSizes sizes(graph);
  std::vector<bool> known(graph.values.size(), false);  // calculated from constants alone
  for (size_t i = 0; i < graph.values.size(); ++i) {
    verify_value(graph.values[i]);
    if (!names.insert(graph.values[i].name).second) refuse(graph.values[i].name, "it occurs twice");
    known[i] = graph.values[i].constant;
    if (known[i]) legible.make(i, "constants");
    if (known[i]) sizes.require(i);
  }
  for (size_t input : graph.inputs) legible.make(input, "inputs");
  for (size_t state : graph.states) legible.make_state(state);
  for (size_t input : graph.inputs) sizes.require(input);
  for (size_t state : graph.states) sizes.require(state);
  for (const Node& node : graph.nodes) {
    bool constant = true;
    for (const auto& [name, value] : node.operands) {
      legible.read(value, node.label, "operand " + name);
      constant = constant && known[value];
      if (!node.is_workload() && !node.is_write() && legible.is_state(value)) {
        refuse(node.label,
               fmt::format("'{}' is a state, of which there are no views and which no loop reads",
                           graph.values[value].name));
      }
    }
    for (size_t output : node.outputs()) legible.make(output, node.label);
    if (node.is_plain()) sizes.say(node);
    for (size_t output : node.outputs()) sizes.require(output);
    known[node.output] = constant && !node.is_loop() && !node.is_plain();
    if (node.is_view()) {
      verify_view(graph, node);
    } else if (node.is_write()) {
      legible.write(node);
    } else if (node.is_loop()) {
      verify_loop(graph, node, specs == Specs::Known);
    } else if (specs == Specs::Parsed && !node.is_plain()) {
      verify_workload(graph, node, known);
    }
  }
  for (size_t output : graph.outputs) legible.read(output, "outputs", "one");
  places_of(graph);
}

std::string type_text(const Value& value) {
  return fmt::format("{}[{}]", to_string(value.elem), fmt::join(value.shape, ", "));
}

}  // namespace tilewright::graph
