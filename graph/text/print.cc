// The text form of graphs.
#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "graph/graph.h"
#include "graph/loops/loops.h"
#include "runtime/tensor/element.h"

namespace tilewright::graph {
namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string constant_text(const Value& v) {
  if (v.data == nullptr && !v.file.empty()) {
    return "from " + quoted(v.file) + (v.tensor == v.name ? "" : " " + quoted(v.tensor));
  }
  if (!is_written(v)) return v.data == nullptr ? v.hash : data_hash(*v.data);
  std::string text;
  for (int64_t i = 0; i < v.count(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", load_element(v.elem, v.data->data(), i));
  }
  return "{" + text + "}";
}

std::string node_text(const Graph& graph, const Node& node) {
  const Value& out = graph.values[node.output];
  std::string text = fmt::format("{}: {}", quoted(out.name), type_text(out));
  for (size_t more : node.more) {
    const Value& v = graph.values[more];
    text += fmt::format(", {}: {}", quoted(v.name), type_text(v));
  }
  text += " = ";
  if (node.is_view()) {
    std::string parts;
    for (size_t part : node.parts()) {
      parts += (parts.empty() ? "" : ", ") + quoted(graph.values[part].name);
    }
    text += "view " + parts + (node.first == 0 ? "" : fmt::format(" from {}", node.first));
  } else if (node.is_write()) {
    auto name = [&](const char* operand) {
      return quoted(graph.values[node.operands.at(operand)].name);
    };
    text += fmt::format("write {} to {} at {}", name("R"), name("X"), name("P"));
  } else {
    std::string operands;
    for (const auto& [name, value] : node.operands) {
      operands += fmt::format("{}{}={}", operands.empty() ? "" : ", ", name,
                              quoted(graph.values[value].name));
    }
    text += fmt::format(
        "{} ({})", node.is_plain() ? "plain " + quoted(node.plain) : quoted(node.spec), operands);
  }
  if (node.label != out.name) text += " for " + quoted(node.label);
  return text + "\n";
}

}  // namespace

std::string constants_and_nodes(const Graph& graph) {
  std::string text;
  for (const Value& v : graph.values) {
    if (!v.constant) continue;
    text += fmt::format("const {}: {} = {}\n", quoted(v.name), type_text(v), constant_text(v));
  }
  for (const Node& node : graph.nodes) {
    text += node.is_loop() ? loop_text(graph, node) : node_text(graph, node);
  }
  for (size_t i : graph.outputs) text += fmt::format("output {}\n", quoted(graph.values[i].name));
  return text;
}

// Few numbers, which a text can hold exactly.
bool is_written(const Value& v) {
  if (v.count() > kMaxWritten || v.data == nullptr) return false;
  for (int64_t i = 0; i < v.count(); ++i) {
    const double x = load_element(v.elem, v.data->data(), i);
    if (!std::isfinite(x) || std::abs(x) > 9e15) return false;
  }
  return true;
}

std::string data_hash(const std::string& data) {
  const XXH128_hash_t h = XXH3_128bits(data.data(), data.size());
  return fmt::format("xxh3:{:016x}{:016x}", h.high64, h.low64);
}

std::string to_string(const Graph& graph) {
  std::string text = fmt::format("graph {}\n", quoted(graph.name));
  for (const Dim& d : graph.dims) {
    const std::string range = d.by_value ? fmt::format("at most {}", d.range.max)
                                         : fmt::format("{}..{}", d.range.min, d.range.max);
    text += fmt::format("dim {}: {} as {}\n", quoted(d.name), range, d.stand_in);
  }
  for (size_t i : graph.inputs) {
    const Value& v = graph.values[i];
    text += fmt::format("input {}: {}\n", quoted(v.name), type_text(v));
  }
  for (size_t i : graph.states) {
    const Value& v = graph.values[i];
    text += fmt::format("state {}: {}\n", quoted(v.name), type_text(v));
  }
  return text + constants_and_nodes(graph);
}

}  // namespace tilewright::graph
