// Runs a small ONNX model with kernels out of a database, and holds the result against the model's own
// definition in f64:
//
//   tune-cli extract model.onnx --nodes | tune-cli tune - --db kernels.db
//   onnx_model model.onnx kernels.db
//
// The nodes that extract makes specs of run as kernels, with what follows fused into them. The others
// only rename or move elements; the interpreter does those in both runs.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <set>

#include "base/error.h"
#include "examples/onnx_model/interpreter.h"
#include "examples/onnx_model/served_layer.h"
#include "models/onnx/layers.h"
#include "models/weights/mapped_file.h"

namespace onnx = tilewright::onnx;
namespace db = tilewright::database;
using Arrays = std::map<std::string, Array>;

// Inputs of small numbers that repeat, so that every run is the same.
Arrays made_inputs(const onnx::Model& model, const onnx::Graph& graph) {
  Arrays values;
  for (const onnx::DeclaredValue& input : model.inputs) {
    Array a;
    size_t count = 1;
    for (const onnx::Extent& e : graph.value(input.name).shape.value()) {
      a.shape.push_back(e.number());
      count *= static_cast<size_t>(e.number());
    }
    for (size_t i = 0; i < count; ++i)
      a.values.push_back(static_cast<double>(i * 5 % 13) / 8 - 0.75);
    values[input.name] = a;
  }
  return values;
}

void run_node(const onnx::Node& node, Arrays* values) {
  std::vector<Array> inputs;
  for (const std::string& name : node.inputs) {
    inputs.push_back(name.empty() ? Array() : values->at(name));
  }
  (*values)[node.outputs[0]] = interpret(node, inputs);
}

// The model's layers by the node at whose place they can run: the last that they stand for.
std::map<const onnx::Node*, std::unique_ptr<ServedLayer>> serve(const onnx::Layers& layers,
                                                                const db::Store& store,
                                                                const std::string& path,
                                                                const Arrays& constants) {
  std::map<const onnx::Node*, std::unique_ptr<ServedLayer>> served;
  for (const onnx::Layer& layer : layers.layers) {
    const onnx::Node* last = *std::max_element(layer.nodes.begin(), layer.nodes.end());
    served[last] = std::make_unique<ServedLayer>(layer, store, path, constants);
  }
  return served;
}

int compare(const std::string& model_path, const std::string& store_path) {
  tilewright::weights::MappedFile file(model_path);
  onnx::Model model = onnx::read_model(file.bytes(), model_path);
  onnx::Values shapes(model, {});
  onnx::Graph graph(model, shapes);
  onnx::Layers layers = onnx::find_layers(graph, {});
  db::Store store = db::Store::open(store_path, db::Mode::ReadOnly);

  Arrays constants, by_definition = made_inputs(model, graph);
  for (const auto& [name, tensor] : model.constants) constants[name] = array_of(tensor);
  by_definition.insert(constants.begin(), constants.end());
  Arrays by_kernels = by_definition;
  for (const onnx::Node& node : model.nodes) run_node(node, &by_definition);

  auto served = serve(layers, store, store_path, constants);
  std::set<const onnx::Node*> covered;
  std::map<const onnx::Node*, std::string> outputs;
  for (const onnx::Layer& layer : layers.layers) {
    covered.insert(layer.nodes.begin(), layer.nodes.end());
    outputs[*std::max_element(layer.nodes.begin(), layer.nodes.end())] = layer.output;
  }
  for (const onnx::Node& node : model.nodes) {
    if (auto layer = served.find(&node); layer != served.end()) {
      const std::string& name = outputs[&node];
      by_kernels[name] = {by_definition.at(name).shape, layer->second->run(by_kernels)};
    } else if (covered.count(&node) == 0) {
      run_node(node, &by_kernels);
    }
  }

  double error = 0, size = 0;
  for (const onnx::DeclaredValue& output : model.outputs) {
    const Array &want = by_definition.at(output.name), &got = by_kernels.at(output.name);
    for (size_t i = 0; i < want.values.size(); ++i) {
      error = std::max(error, std::abs(want.values[i] - got.values[i]));
      size = std::max(size, std::abs(want.values[i]));
    }
  }
  std::cout << served.size() << " kernels for " << model.nodes.size() << " nodes; largest error "
            << error << " of values up to " << size << "\n";
  return error <= 1e-4 * size ? 0 : 1;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: onnx_model MODEL.onnx KERNELS.db\n";
    return 2;
  }
  try {
    return compare(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::cerr << "onnx_model: " << error.what() << "\n";
    return 1;
  }
}
