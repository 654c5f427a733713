// From the layers of a model to workloads with counts.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/models/extract.h"

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

}  // namespace

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
  if (all.workloads.empty()) {
    const std::string why =
        all.left_out.empty() ? fmt::format("its {} nodes calculate nothing", all.nodes)
                             : fmt::format("{} nodes were left out, the first of them {} ({}): {}",
                                           all.left_out.size(), all.left_out[0].node,
                                           all.left_out[0].op, all.left_out[0].reason);
    throw UsageError(fmt::format("{}: no workload was found; {}", model.path, why));
  }
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
