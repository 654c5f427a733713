#include "cli/models/model_error.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/run/model_tensors.h"
#include "graph/interpret.h"
#include "runtime/check/reference.h"
#include "runtime/tensor/element.h"
#include "runtime/tensor/seeded.h"

namespace tilewright::cli {
namespace {

constexpr uint64_t kSeed = 0x6d6f64656cull;

void fill(HostArray* array, const serving::Port& port) {
  std::optional<ValueRange> range;
  if (!is_float(port.elem)) range = ValueRange{0, 1};
  const int64_t count = port.bytes * 8 / bits_of(port.elem);
  SeededValues(kSeed, port.name, port.elem, range).fill(array->data(), count);
}

// As a share of the largest wanted magnitude; infinite where one of both is no number.
double difference(const graph::Value& v, const void* got, const void* want) {
  double most = 0, largest = 0;
  for (int64_t i = 0; i < v.count(); ++i) {
    const double g = load_element(v.elem, got, i), w = load_element(v.elem, want, i);
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    if (!std::isfinite(g - w)) return std::numeric_limits<double>::infinity();
    most = std::max(most, std::abs(g - w));
  }
  for (int64_t i = 0; i < v.count(); ++i) {
    const double w = std::abs(load_element(v.elem, want, i));
    if (std::isfinite(w)) largest = std::max(largest, w);
  }
  return most == 0 ? 0 : most / std::max(largest, std::numeric_limits<double>::min());
}

}  // namespace

ModelError error_of_model(const std::string& file, const graph::Graph& graph,
                          const CommonOptions& options) {
  serving::ModelOptions own;
  own.threads = options.threads;
  serving::Model model(file, own);
  Tensors inputs(model.inputs()), outputs(model.outputs());
  std::map<std::string, graph::Bytes> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const serving::Port& port = model.inputs()[i];
    fill(&inputs.at(i), port);
    given[port.name] = std::make_shared<const std::string>(
        static_cast<const char*>(inputs.at(i).data()), static_cast<size_t>(port.bytes));
  }
  Threads threads(thread_count(options));
  model.run(inputs.data(), inputs.size(), outputs.data(), outputs.size(), threads.executor);
  const std::vector<graph::Bytes> wanted =
      graph::interpret(graph, given, parallel_on(threads.pool));
  ModelError error;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const graph::Value& v = graph.values[graph.outputs[i]];
    const double off = difference(v, outputs.at(i).data(), wanted[i]->data());
    if (i > 0 && off <= error.worst) continue;
    error = {off, v.name};
  }
  return error;
}

}  // namespace tilewright::cli
