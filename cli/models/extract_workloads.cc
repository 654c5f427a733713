// From the layers of a model to workloads with counts.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/models/extract.h"
#include "cli/models/tuning.h"
#include "graph/loops/loops.h"
#include "graph/sizes.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

void add_layer(const onnx::Layer& layer, std::map<std::string, size_t>* places,
               std::vector<ModelWorkload>* out) {
  const std::string name = layer.nodes[0]->label();
  Json spec = Json::parse(layer.spec);
  spec["name"] = name;
  Workload workload = parse_workload(spec.dump());
  auto [place, fresh] = places->emplace(workload.canonical, out->size());
  if (fresh) out->push_back({spec.dump(), std::move(workload), 0, {}, {}});
  ModelWorkload& w = (*out)[place->second];
  ++w.count;
  w.nodes.push_back(name);
  const bool noted = std::find(w.notes.begin(), w.notes.end(), layer.note) != w.notes.end();
  if (!layer.note.empty() && !noted) w.notes.push_back(layer.note);
}

void require_workloads(const ModelWorkloads& all, const std::string& path) {
  if (all.workloads.empty()) {
    const std::string why =
        all.left_out.empty() ? fmt::format("its {} nodes calculate nothing", all.nodes)
                             : fmt::format("{} nodes were left out, the first of them {} ({}): {}",
                                           all.left_out.size(), all.left_out[0].node,
                                           all.left_out[0].op, all.left_out[0].reason);
    throw UsageError(fmt::format("{}: no workload was found; {}", path, why));
  }
}

}  // namespace

ModelWorkloads program_workloads(const graph::Graph& graph, const std::string& path) {
  const Uses uses = uses_of(graph);
  ModelWorkloads all;
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < uses.workloads.size(); ++i) {
    places.emplace(uses.workloads[i].canonical, i);
    all.workloads.push_back({"", uses.workloads[i], static_cast<int64_t>(uses.counts[i]), {}, {}});
  }
  graph::for_each_node(graph, [&](const graph::Graph& around, const graph::Node& node, double) {
    ++all.nodes;
    if (node.is_plain()) {
      all.left_out.push_back({node.label, node.plain, "it runs on one thread, without a kernel"});
    }
    if (!node.is_workload()) return;
    const Workload own = parse_workload(graph::ranged(around, node).spec);
    all.workloads[places.at(own.canonical)].nodes.push_back(node.label);
  });
  for (ModelWorkload& w : all.workloads) {
    Json spec = Json::parse(w.workload.canonical);
    spec["name"] = w.nodes[0];
    spec["count"] = w.count;
    w.spec = spec.dump();
    w.workload.label = w.nodes[0];
  }
  require_workloads(all, path);
  return all;
}

ModelWorkloads model_workloads(const onnx::Model& model, const std::map<std::string, DimSize>& dims,
                               const onnx::LayerOptions& options) {
  onnx::Values values(model, dims);
  onnx::Graph graph(model, values);
  onnx::Layers layers = find_layers(graph, options);
  ModelWorkloads all;
  all.opsets = model.opsets;
  all.nodes = model.nodes.size();
  std::map<std::string, size_t> places;
  for (const onnx::Layer& layer : layers.layers) add_layer(layer, &places, &all.workloads);
  for (ModelWorkload& w : all.workloads) {
    Json spec = Json::parse(w.spec);
    spec["count"] = w.count;
    w.spec = spec.dump();
  }
  for (const onnx::LeftOut& l : layers.left_out) {
    all.left_out.push_back({l.node->label(), l.node->full_op(), l.reason});
  }
  require_workloads(all, model.path);
  return all;
}

std::string spec_file(const ModelWorkloads& all) {
  std::string text = "{\"workloads\": [\n";
  for (size_t i = 0; i < all.workloads.size(); ++i) {
    text += fmt::format("  {}{}\n", all.workloads[i].spec, i + 1 < all.workloads.size() ? "," : "");
  }
  return text + "]}\n";
}

}  // namespace tilewright::cli
