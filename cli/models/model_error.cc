#include "cli/models/model_error.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/run/emulated_kernel.h"
#include "cli/run/model_tensors.h"
#include "graph/interpret.h"
#include "graph/sizes.h"
#include "runtime/check/reference.h"
#include "runtime/tensor/element.h"

namespace tilewright::cli {
namespace {

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

// At sizes of the model's dimensions.
ModelError error_at(serving::Model& model, const graph::Graph& graph, const serving::Sizes& sizes,
                    Threads& threads) {
  Tensors inputs(model.inputs(), sizes), outputs(model.outputs(), sizes);
  std::map<std::string, graph::Bytes> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    HostArray& array = inputs.at(i);
    fill_randomly(&array);
    given[array.name()] = std::make_shared<const std::string>(
        static_cast<const char*>(array.data()), static_cast<size_t>(array.bytes()));
  }
  model.run(inputs.data(), inputs.size(), outputs.data(), outputs.size(),
            {&threads.executor, nullptr});
  std::map<std::string, int64_t> named;
  for (size_t d = 0; d < graph.dims.size(); ++d) named[graph.dims[d].name] = sizes[d];
  const graph::Graph fixed = graph::at_sizes(graph, named);
  const std::vector<graph::Bytes> wanted =
      graph::interpret(fixed, given, parallel_on(threads.pool));
  ModelError error;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const graph::Value& v = fixed.values[fixed.outputs[i]];
    const double off = difference(v, outputs.at(i).data(), wanted[i]->data());
    if (i > 0 && off <= error.worst) continue;
    error = {off, v.name};
  }
  return error;
}

}  // namespace

ModelError error_of_model(const std::string& file, const graph::Graph& graph,
                          const CommonOptions& options) {
  serving::ModelOptions own;
  own.threads = options.threads;
  if (Target::parse(options.target).is_cuda()) own.emulate = load_emulated_kernel;
  serving::Model model(file, own);
  Threads threads(thread_count(options));
  ModelError error = error_at(model, graph, model.largest_sizes(), threads);
  if (graph.dims.empty()) return error;
  const ModelError small = error_at(model, graph, model.least_sizes(), threads);
  return small.worst > error.worst ? small : error;
}

}  // namespace tilewright::cli
