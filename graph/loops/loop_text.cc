// The text form of loops.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "graph/loops/loops.h"

namespace tilewright::graph {
namespace {

std::string quoted_name(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string loop_text(const Graph& graph, const Node& node) {
  const Loop& loop = *node.loop;
  const auto name = [&](size_t value) { return quoted_name(graph.values[value].name); };
  const auto own = [&](size_t output) {
    return quoted_name(loop.body.values[loop.body.outputs[output]].name);
  };
  std::string text = fmt::format("loop {}", loop.rounds);
  if (const auto most = node.operands.find(kRounds); most != node.operands.end()) {
    text += " at most " + name(most->second);
  }
  if (loop.go_on) text += " while " + own(*loop.go_on);
  if (node.label != graph.values[node.output].name) text += " for " + quoted_name(node.label);
  text += "\n";
  for (size_t i = 0; i < loop.inputs.size(); ++i) {
    const Value& v = loop.body.values[loop.body.inputs[i]];
    text += fmt::format("input {}: {} = ", quoted_name(v.name), type_text(v));
    switch (loop.inputs[i].kind) {
      case Loop::In::Number: text += "number\n"; continue;
      case Loop::In::Rows: text += "rows "; break;
      case Loop::In::RowsBack: text += "rows back "; break;
      case Loop::In::Whole: text += "whole "; break;
      case Loop::In::Carried: break;
    }
    text += name(node.operands.at(v.name));
    if (loop.inputs[i].kind == Loop::In::Carried) text += " then " + own(loop.inputs[i].next);
    text += "\n";
  }
  text += constants_and_nodes(loop.body);
  for (size_t o = 0; o < loop.outputs.size(); ++o) {
    const Value& v = graph.values[o == 0 ? node.output : node.more[o - 1]];
    const char* kind = !loop.outputs[o].rows ? "last" : loop.outputs[o].back ? "rows back" : "rows";
    text += fmt::format("{} {}: {} = {}\n", kind, quoted_name(v.name), type_text(v),
                        own(loop.outputs[o].from));
  }
  return text + "end\n";
}

}  // namespace tilewright::graph
