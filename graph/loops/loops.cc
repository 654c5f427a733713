#include "graph/loops/loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/sizes.h"

namespace tilewright::graph {
namespace {

[[noreturn]] void refuse_loop(const Node& node, const std::string& why) {
  throw GraphError(fmt::format("'{}': {}", node.label, why));
}

// Elements of a row of a value, which the rounds of the loop cut into rows.
void require_rows(const Node& node, const Loop& loop, const Value& all, const Value& row) {
  if (all.elem == row.elem && all.count() == row.count() * loop.rounds) return;
  refuse_loop(node, fmt::format("'{}' is {}; expected {} rows of '{}', {}", all.name,
                                type_text(all), loop.rounds, row.name, type_text(row)));
}

void require_same(const Node& node, const Value& a, const Value& b) {
  if (a.elem == b.elem && a.count() == b.count()) return;
  refuse_loop(node, fmt::format("'{}' is {} and '{}' is {}; expected one type", a.name,
                                type_text(a), b.name, type_text(b)));
}

void verify_inputs(const Graph& graph, const Node& node) {
  const Loop& loop = *node.loop;
  size_t operands = node.operands.contains(kRounds) ? 1 : 0;
  for (size_t i = 0; i < loop.inputs.size(); ++i) {
    const Value& own = loop.body.values[loop.body.inputs[i]];
    const auto [kind, next] = loop.inputs[i];
    if (own.name == kRounds) refuse_loop(node, fmt::format("an input has the name '{}'", kRounds));
    if (kind == Loop::In::Number) {
      if (own.elem != ElemType::i64 || own.count() != 1)
        refuse_loop(node, fmt::format("'{}' is {}; expected i64[1]", own.name, type_text(own)));
      continue;
    }
    const auto bound = node.operands.find(own.name);
    if (bound == node.operands.end()) refuse_loop(node, fmt::format("'{}' is missing", own.name));
    ++operands;
    const Value& given = graph.values[bound->second];
    if (kind == Loop::In::Rows || kind == Loop::In::RowsBack) {
      require_rows(node, loop, given, own);
    } else {
      require_same(node, given, own);
    }
    if (kind != Loop::In::Carried) continue;
    if (next >= loop.body.outputs.size()) refuse_loop(node, "nothing is carried");
    require_same(node, loop.body.values[loop.body.outputs[next]], own);
  }
  if (operands != node.operands.size())
    refuse_loop(node, "it has operands that its body does not take");
}

}  // namespace

size_t carried_input(const Loop& loop, size_t output) {
  for (size_t i = 0; i < loop.inputs.size(); ++i) {
    if (loop.inputs[i].kind == Loop::In::Carried && loop.inputs[i].next == output) return i;
  }
  throw GraphError(fmt::format("output {} of a body is not carried", output));
}

void verify_loop(const Graph& graph, const Node& node, bool specs_are_known) {
  const Loop& loop = *node.loop;
  if (loop.rounds < 1) refuse_loop(node, "it has no rounds");
  if (loop.inputs.size() != loop.body.inputs.size() || !loop.body.states.empty() ||
      loop.outputs.size() != node.more.size() + 1) {
    refuse_loop(node, "its inputs and outputs are not those of its body");
  }
  if (std::ranges::any_of(loop.body.nodes, &Node::is_plain)) {
    refuse_loop(node, "its body has a plain node, which stands outside of loops alone");
  }
  verify(loop.body, specs_are_known ? Specs::Known : Specs::Parsed);
  for (const Graph* g : {&graph, &loop.body}) {
    for (const Value& v : g->values) {
      if (g == &loop.body && bits_of(v.elem) < 8 && !v.constant)
        refuse_loop(node, fmt::format("'{}' has elements of {}", v.name, to_string(v.elem)));
    }
  }
  verify_inputs(graph, node);
  if (const auto rounds = node.operands.find(kRounds); rounds != node.operands.end()) {
    const Value& v = graph.values[rounds->second];
    if (v.count() != 1 || is_float(v.elem))
      refuse_loop(node, fmt::format("'{}' is {}; expected one integer", v.name, type_text(v)));
  }
  for (size_t o = 0; o < loop.outputs.size(); ++o) {
    const Loop::Output& output = loop.outputs[o];
    if (output.from >= loop.body.outputs.size()) refuse_loop(node, "an output is missing");
    const Value& own = loop.body.values[loop.body.outputs[output.from]];
    const Value& out = graph.values[o == 0 ? node.output : node.more[o - 1]];
    if (output.rows) {
      require_rows(node, loop, out, own);
    } else {
      require_same(node, out, own);
      carried_input(loop, output.from);
    }
  }
  if (loop.go_on && (*loop.go_on >= loop.body.outputs.size() ||
                     loop.body.values[loop.body.outputs[*loop.go_on]].bytes() != 1)) {
    refuse_loop(node, "its condition is no value of one byte");
  }
}

void for_each_node(const Graph& graph,
                   const std::function<void(const Graph&, const Node&, double)>& fn, double times) {
  for (const Node& node : graph.nodes) {
    fn(graph, node, times);
    if (!node.is_loop()) continue;
    const double rounds =
        static_cast<double>(range_of(graph, size_of(graph, node.loop->rounds)).max);
    for_each_node(node.loop->body, fn, times * (node.operands.contains(kRounds) ? 1 : rounds));
  }
}

void for_each_graph(const Graph& graph, const std::function<void(const Graph&)>& fn) {
  fn(graph);
  for (const Node& node : graph.nodes) {
    if (node.is_loop()) for_each_graph(node.loop->body, fn);
  }
}

void change_bodies(Graph* graph, const std::function<void(Loop*)>& fn) {
  for (Node& node : graph->nodes) {
    if (!node.is_loop()) continue;
    auto changed = std::make_shared<Loop>(*node.loop);
    fn(changed.get());
    node.loop = std::move(changed);
  }
}

bool has_loops(const Graph& graph) { return std::ranges::any_of(graph.nodes, &Node::is_loop); }

}  // namespace tilewright::graph
