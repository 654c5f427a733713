// Runs ONNX models, optimized as `compile` does it, by the interpreter of graphs:
//   onnx_graph [--ranged] FOLDER…
// A folder holds model.onnx and its inputs as in0.npy, in1.npy, …; the sizes of named dimensions are
// those of the inputs; with --ranged they have ranges, up to the next power of two, when the graph is made.
// The outputs are written beside them as out0.npy, …. Prints a JSON object per
// folder: the number of nodes that were imported and that remain, and how many of these only move elements,
// or "error".
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "graph/import_onnx.h"
#include "graph/interpret.h"
#include "graph/moves.h"
#include "graph/optimize.h"
#include "graph/sizes.h"
#include "models/onnx/external.h"
#include "models/weights/mapped_file.h"
#include "runtime/tensor/npy.h"

using namespace tilewright;

namespace {

using Json = nlohmann::ordered_json;

std::vector<NpyArray> read_inputs(const std::string& folder) {
  std::vector<NpyArray> arrays;
  for (size_t i = 0;; ++i) {
    const std::string path = fmt::format("{}/in{}.npy", folder, i);
    if (!std::filesystem::exists(path)) return arrays;
    arrays.push_back(read_npy(path));
  }
}

std::map<std::string, int64_t> sizes_of(const onnx::Model& model,
                                        const std::vector<NpyArray>& inputs) {
  std::map<std::string, int64_t> sizes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const onnx::DeclaredValue& v = model.inputs.at(i);
    for (size_t d = 0; v.shape && d < v.shape->size(); ++d) {
      const onnx::DeclaredSize& size = (*v.shape)[d];
      if (size.number) continue;
      const int64_t given = inputs[i].shape.at(d);
      sizes[size.name.empty() || size.name == "?" ? fmt::format("{}.{}", v.name, d) : size.name] =
          given;
    }
  }
  return sizes;
}

// As `compile` makes it, but for the precision.
graph::Graph optimized(const onnx::Model& model, const std::map<std::string, DimSize>& sizes,
                       const onnx::StandIns& stand_ins, size_t* imported) {
  graph::Graph graph = graph::import_onnx(model, sizes, stand_ins);
  graph::verify(graph);
  *imported = graph.nodes.size();
  graph::fold_constants(&graph);
  const std::string text = graph::to_string(graph);
  if (graph::to_string(graph::parse_graph(text)) != text) throw Error("the text changed");
  graph::optimize(&graph);
  graph::verify(graph);
  return graph;
}

Json run(const std::string& folder, bool ranged) {
  const std::string path = folder + "/model.onnx";
  const weights::MappedFile file(path);
  onnx::Model model = onnx::read_model(file.bytes(), path);
  const onnx::ExternalData constants(model);
  const std::vector<NpyArray> inputs = read_inputs(folder);
  const std::map<std::string, int64_t> sizes = sizes_of(model, inputs);
  std::map<std::string, DimSize> ranges;
  for (const auto& [name, size] : sizes) {
    const auto most = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(size)));
    ranges[name] = ranged ? DimSize{1, most} : DimSize{size, size};
  }
  size_t imported = 0;
  graph::Graph graph = optimized(model, ranges, onnx::kStandIns, &imported);
  if (!graph.dims.empty()) {
    require_same(graph, optimized(model, ranges, onnx::kOtherStandIns, &imported));
    graph = at_sizes(graph, sizes);
    graph::verify(graph);
  }
  std::map<std::string, graph::Bytes> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    given[model.inputs[i].name] = std::make_shared<std::string>(inputs[i].bytes);
  }
  std::map<std::string, graph::Bytes> states;
  std::vector<graph::Shape> shapes;
  const std::vector<graph::Bytes> outputs = interpret(graph, given, &states, {}, &shapes);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ElemType elem = graph.values[graph.outputs[i]].elem;
    write_npy(fmt::format("{}/out{}.npy", folder, i),
              TensorView{elem, shapes[i], outputs[i]->data()});
  }
  const auto moves = std::ranges::count_if(graph.nodes, [](const graph::Node& node) {
    const auto made = graph::text_of(node);
    const auto value = made ? graph::value_of(*made) : std::nullopt;
    return value && value->kind == ops::Syntax::Kind::Read;
  });
  return {{"nodes", graph.nodes.size()}, {"imported", imported}, {"moves", moves}};
}

}  // namespace

int main(int argc, char** argv) {
  const bool ranged = argc > 1 && std::string_view(argv[1]) == "--ranged";
  for (int i = ranged ? 2 : 1; i < argc; ++i) {
    Json told;
    try {
      told = run(argv[i], ranged);
    } catch (const std::exception& e) {
      told = {{"error", e.what()}};
    }
    told["folder"] = argv[i];
    std::cout << told.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  }
}
