#include "graph/interpret.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/loops/loops.h"
#include "graph/plain/compute.h"
#include "graph/plain/plain.h"
#include "graph/rows.h"
#include "graph/sizes.h"
#include "ir/ops/spec.h"
#include "runtime/tensor/element.h"

namespace tilewright::graph {
namespace {

// Bytes of a constant that is made. Weights have to be constants, and the largest ones of a model are below.
constexpr int64_t kMaxFolded = int64_t{1} << 31;

// Sizes of the graph's dimensions while it is interpreted: stand-ins, until plain nodes have said theirs.
using Dims = std::vector<int64_t>;

int64_t bytes_at(const Graph& graph, size_t value, const Dims& dims) {
  const Value& v = graph.values[value];
  return dims.empty() ? v.bytes() : bytes_for(v.elem, size_of(graph, v.count()).at(dims.data()));
}

std::shared_ptr<std::string> room_for(int64_t bytes) {
  return std::make_shared<std::string>(static_cast<size_t>(bytes), '\0');
}

Bytes by_oracle(const Graph& graph, const Node& node, const std::vector<Bytes>& values,
                const Dims& dims, const Oracle::ParallelFn& parallel) {
  const RangedSpec spec = ranged(graph, node);
  std::map<std::string, int64_t> sizes;
  for (const auto& [name, size] : spec.sizes) sizes[name] = size.at(dims.data());
  std::map<std::string, ComputeOperand> operands;
  for (const auto& [name, value] : node.operands) {
    operands[name] = {graph.values[value].elem, values[value]->data()};
  }
  auto made = room_for(bytes_at(graph, node.output, dims));
  if (!made->empty()) {
    compute(parse_workload(spec.spec), sizes, operands, made->data(), parallel);
  }
  return made;
}

// Runs a plain node, and notes the size that it says.
void run_plain(const Graph& graph, const Node& node, std::vector<Bytes>* values, Dims* dims) {
  PlainRoutine routine(graph, node);
  routine.reserve();
  for (size_t i = 0; i < routine.inputs().size(); ++i) {
    const size_t value = routine.inputs()[i];
    if (value != PlainRoutine::kNone) {
      routine.bind_input(i, const_cast<char*>((*values)[value]->data()));
    }
  }
  std::vector<std::shared_ptr<std::string>> made;
  for (size_t o = 0; o < routine.outputs().size(); ++o) {
    made.push_back(room_for(most_bytes(graph, graph.values[routine.outputs()[o]])));
    routine.bind_output(o, made[o]->data());
  }
  (*dims)[routine.dim()] = routine.run(dims->data());
  for (size_t o = 0; o < made.size(); ++o) {
    made[o]->resize(static_cast<size_t>(bytes_at(graph, routine.outputs()[o], *dims)));
    (*values)[routine.outputs()[o]] = made[o];
  }
}

// The elements that a view names.
Bytes viewed(const Graph& graph, const Node& node, const std::vector<Bytes>& values,
             const Dims& dims) {
  const std::vector<size_t> parts = node.parts();
  const Value& out = graph.values[node.output];
  if (parts.size() == 1 && out.count() == graph.values[parts[0]].count()) return values[parts[0]];
  std::string all;
  for (size_t part : parts) all += *values[part];
  return std::make_shared<const std::string>(
      all, static_cast<size_t>(bytes_for(out.elem, node.first)),
      static_cast<size_t>(bytes_at(graph, node.output, dims)));
}

// The state behind a write.
Bytes written(const Graph& graph, const Node& node, const std::vector<Bytes>& values) {
  const Rows rows = rows_of(graph, node);
  const size_t input = node.operands.at("P");
  const auto first = static_cast<int64_t>(load_element(ElemType::i32, values[input]->data(), 0));
  if (first < 0 || first > rows.last_first()) {
    throw GraphError(fmt::format("input '{}' is {}; expected 0 to {}", graph.values[input].name,
                                 first, rows.last_first()));
  }
  auto state = std::make_shared<std::string>(*values[node.operands.at("X")]);
  rows.copy(values[node.operands.at("R")]->data(), first, state->data());
  return state;
}

Bytes bytes_of(const Value& v, const std::map<std::string, Bytes>& given, const char* what) {
  auto found = given.find(v.name);
  if (found == given.end()) throw GraphError(fmt::format("{} '{}' is missing", what, v.name));
  if (static_cast<int64_t>(found->second->size()) != v.bytes()) {
    throw GraphError(fmt::format("{} '{}' has {} bytes; expected {} of {}", what, v.name,
                                 found->second->size(), v.bytes(), type_text(v)));
  }
  return found->second;
}

void run_body(const Graph& graph, const Node& node, std::vector<Bytes>* values,
              const Oracle::ParallelFn& parallel) {
  std::map<std::string, Bytes> operands;
  for (const auto& [name, value] : node.operands) operands[name] = (*values)[value];
  std::vector<size_t> outputs = {node.output};
  outputs.insert(outputs.end(), node.more.begin(), node.more.end());
  std::vector<int64_t> bytes;
  for (size_t output : outputs) bytes.push_back(graph.values[output].bytes());
  const std::vector<Bytes> made = interpret_loop(
      node, operands, bytes, [&](const Graph& body, const std::map<std::string, Bytes>& inputs) {
        return interpret(body, inputs, parallel);
      });
  for (size_t o = 0; o < outputs.size(); ++o) (*values)[outputs[o]] = made[o];
}

}  // namespace

std::vector<Bytes> interpret(const Graph& graph, const std::map<std::string, Bytes>& inputs,
                             const Oracle::ParallelFn& parallel) {
  std::map<std::string, Bytes> states;
  return interpret(graph, inputs, &states, parallel, nullptr);
}

std::vector<Bytes> interpret(const Graph& graph, const std::map<std::string, Bytes>& inputs,
                             std::map<std::string, Bytes>* states,
                             const Oracle::ParallelFn& parallel, std::vector<Shape>* shapes) {
  std::vector<Bytes> values(graph.values.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = graph.values[i].data;
  for (size_t i : graph.inputs) values[i] = bytes_of(graph.values[i], inputs, "input");
  std::vector<size_t> now = graph.states;  // the last value of each
  for (size_t i : graph.states) {
    const Value& v = graph.values[i];
    states->emplace(v.name,
                    std::make_shared<const std::string>(static_cast<size_t>(v.bytes()), '\0'));
    values[i] = bytes_of(v, *states, "state");
  }
  Dims dims;
  for (const Dim& d : graph.dims) dims.push_back(d.stand_in);
  std::vector<size_t> uses(values.size(), 0);
  for (const Node& node : graph.nodes) {
    for (const auto& [name, value] : node.operands) ++uses[value];
  }
  for (size_t i : graph.outputs) ++uses[i];
  for (const Node& node : graph.nodes) {
    if (node.is_loop()) {
      run_body(graph, node, &values, parallel);
    } else if (node.is_write()) {
      values[node.output] = written(graph, node, values);
      std::ranges::replace(now, node.operands.at("X"), node.output);
      ++uses[node.output];  // it stays
    } else if (node.is_plain()) {
      run_plain(graph, node, &values, &dims);
    } else {
      values[node.output] = node.is_view() ? viewed(graph, node, values, dims)
                                           : by_oracle(graph, node, values, dims, parallel);
    }
    for (const auto& [name, value] : node.operands) {
      if (--uses[value] == 0) values[value] = nullptr;
    }
  }
  if (shapes != nullptr) {
    shapes->clear();
    for (size_t i : graph.outputs) shapes->push_back(shape_at(graph, graph.values[i], dims.data()));
  }
  for (size_t s = 0; s < now.size(); ++s) {
    if (now[s] != graph.states[s]) (*states)[graph.values[graph.states[s]].name] = values[now[s]];
  }
  std::vector<Bytes> outputs;
  for (size_t i : graph.outputs) outputs.push_back(values[i]);
  return outputs;
}

void fold_constants(Graph* graph, const Oracle::ParallelFn& parallel) {
  drop_unused(graph);
  std::vector<Bytes> values;
  for (const Value& v : graph->values) values.push_back(v.data);
  std::vector<Node> rest;
  for (Node& node : graph->nodes) {
    if (node.is_loop()) {
      move_constants_in(*graph, &node, values);
      rest.push_back(std::move(node));
      continue;
    }
    const bool known = std::all_of(node.operands.begin(), node.operands.end(),
                                   [&](const auto& o) { return values[o.second] != nullptr; });
    Value& out = graph->values[node.output];
    if (!known || is_ranged(*graph, out) || out.bytes() > kMaxFolded) {
      rest.push_back(std::move(node));
      continue;
    }
    out.data = node.is_view() ? viewed(*graph, node, values, {})
                              : by_oracle(*graph, node, values, {}, parallel);
    out.constant = true;
    values[node.output] = out.data;
  }
  graph->nodes = std::move(rest);
  drop_unused(graph);
  change_bodies(graph, [&](Loop* loop) { fold_constants(&loop->body, parallel); });
}

void drop_unused(Graph* graph) {
  std::vector<bool> needed(graph->values.size(), false);
  for (size_t i : graph->inputs) needed[i] = true;
  for (size_t i : graph->states) needed[i] = true;
  for (size_t i : graph->outputs) needed[i] = true;
  std::vector<Node> nodes;
  std::vector<bool> sized(graph->dims.size(),
                          false);  // whether a value that is needed has the size
  const auto note_sizes = [&](const Node& node) {
    for (size_t output : node.outputs()) {
      const Size size = size_of(*graph, graph->values[output].count());
      for (size_t d = 0; d < sized.size(); ++d) sized[d] = sized[d] || size.powers[d] > 0;
    }
  };
  const auto says_size = [&](const Node& node) {
    return node.is_plain() && sized[PlainRoutine(*graph, node).dim()];
  };
  for (size_t n = graph->nodes.size(); n-- > 0;) {
    Node& node = graph->nodes[n];
    const bool read = needed[node.output] ||
                      std::ranges::any_of(node.more, [&](size_t more) { return needed[more]; });
    if (!read && !node.is_write() && !says_size(node)) continue;
    note_sizes(node);
    needed[node.output] = true;
    for (size_t more : node.more) needed[more] = true;
    for (const auto& [name, value] : node.operands) needed[value] = true;
    nodes.push_back(std::move(node));
  }
  std::reverse(nodes.begin(), nodes.end());
  std::vector<size_t> place(needed.size(), 0);
  std::vector<Value> values;
  for (size_t i = 0; i < needed.size(); ++i) {
    place[i] = values.size();
    if (needed[i]) values.push_back(std::move(graph->values[i]));
  }
  for (Node& node : nodes) {
    for (auto& [name, value] : node.operands) value = place[value];
    node.output = place[node.output];
    for (size_t& more : node.more) more = place[more];
  }
  for (size_t& i : graph->inputs) i = place[i];
  for (size_t& i : graph->states) i = place[i];
  for (size_t& i : graph->outputs) i = place[i];
  graph->values = std::move(values);
  graph->nodes = std::move(nodes);
}

}  // namespace tilewright::graph
