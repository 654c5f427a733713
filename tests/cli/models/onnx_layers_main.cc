// Prints what is made of models that others wrote: a JSON object a line.
//   onnx_layers MODEL.onnx…
// "shapes" has the inferred sizes of its values. "layers" has the specs; those whose operands are known
// are computed by the oracle and compared. A constant "given:x" has the elements of the value x that the
// model is given, "expected:y" what it makes of them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "ir/oracle/evaluate.h"
#include "models/onnx/external.h"
#include "models/onnx/layers.h"
#include "models/weights/mapped_file.h"
#include "runtime/tensor/operands.h"

using namespace tilewright;

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kCompared = 4096;  // elements of an output, at most

const onnx::Tensor* find(const onnx::Model& model, const std::string& name) {
  const auto it = model.constants.find(name);
  return it != model.constants.end() && it->second.readable() ? &it->second : nullptr;
}

// The elements of the operands of a layer; nothing where some are not known.
std::optional<std::map<std::string, ElementReader>> readers(
    const onnx::Model& model, const onnx::Layer& layer, const std::vector<OperandInfo>& operands) {
  std::map<std::string, ElementReader> inputs;
  for (const OperandInfo& info : operands) {
    if (info.role == ParamRole::Output) continue;
    const auto value = layer.operands.find(info.name);
    if (value == layer.operands.end()) return std::nullopt;
    const onnx::Tensor* tensor = find(model, value->second);
    if (tensor == nullptr) tensor = find(model, "given:" + value->second);
    int64_t count = 1;
    for (int64_t extent : info.shape) count *= extent;
    if (tensor == nullptr) return std::nullopt;
    if (tensor->count != count) {
      throw Error(fmt::format("operand {} of {} has {} elements, and '{}' {}", info.name,
                              layer.spec, count, value->second, tensor->count));
    }
    inputs[info.name] = [tensor](int64_t i) { return tensor->at(i); };
  }
  return inputs;
}

// Compares a layer's output with what is expected, and says how far the worst element is off, in shares
// of what is granted.
void compare(const onnx::Model& model, const onnx::Layer& layer, Json* told) {
  const onnx::Tensor* expected = find(model, "expected:" + layer.output);
  const Workload workload = parse_workload(layer.spec);
  if (expected == nullptr || !layer.note.empty() || !workload.dims.empty()) return;
  const std::vector<OperandInfo> operands = operands_of(workload, {});
  const auto inputs = readers(model, layer, operands);
  if (!inputs) return;
  int64_t count = 1;
  for (int64_t extent : operands.back().shape) count *= extent;
  if (count != expected->count) {
    throw Error(fmt::format("the output of {} has {} elements; expected {}", layer.spec, count,
                            expected->count));
  }
  Oracle oracle(workload, *inputs);
  double worst = 0;
  const int64_t step = std::max<int64_t>(1, expected->count / kCompared);
  for (int64_t i = 0; i < expected->count; i += step) {
    const Oracle::Value value = oracle.at(i);
    const double wanted = expected->at(i);
    if (std::isnan(wanted) && std::isnan(value.value)) continue;
    if (wanted == value.value) continue;
    // The other side has roundings of its own.
    const double granted = 4 * value.error + 1e-5 * std::abs(value.value) + 1e-6;
    const double off = std::abs(wanted - value.value) / granted;
    worst = std::isnan(off) ? 1e9 : std::max(worst, off);
  }
  (*told)["off"] = worst;
}

Json told_of(const std::string& path) {
  weights::MappedFile file(path);
  onnx::Model model = onnx::read_model(file.bytes(), path);
  const onnx::ExternalData constants(model);
  onnx::Values values(model, {});
  onnx::Graph graph(model, values);
  Json shapes = Json::object(), layers = Json::array(), left_out = Json::array();
  for (const onnx::Node& node : model.nodes) {
    for (const std::string& output : node.outputs) {
      const std::optional<onnx::Shape>& shape = values.at(output).shape;
      const bool known = shape && std::all_of(shape->begin(), shape->end(),
                                              [](const onnx::Extent& e) { return e.fixed(); });
      if (output.empty() || !known) continue;
      shapes[output] = Json::array();
      for (const onnx::Extent& e : *shape) shapes[output].push_back(e.number());
    }
  }
  const onnx::Layers found = onnx::find_layers(graph, {});
  for (const onnx::Layer& layer : found.layers) {
    Json told = {{"spec", layer.spec}, {"output", layer.output}, {"note", layer.note}};
    compare(model, layer, &told);
    layers.push_back(told);
  }
  for (const onnx::LeftOut& left : found.left_out) {
    left_out.push_back({{"op", left.node->full_op()}, {"reason", left.reason}});
  }
  return {{"path", path}, {"shapes", shapes}, {"layers", layers}, {"left_out", left_out}};
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    Json told;
    try {
      told = told_of(argv[i]);
    } catch (const Error& e) {
      told = {{"path", argv[i]}, {"error", e.what()}};
    }
    std::cout << told.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  }
  return 0;
}
