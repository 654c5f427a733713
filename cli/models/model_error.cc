#include "cli/models/model_error.h"

#include <cstring>

#include "cli/run/emulated_kernel.h"
#include "cli/run/model_tensors.h"
#include "graph/interpret.h"
#include "graph/sizes.h"
#include "runtime/check/reference.h"

namespace tilewright::cli {
namespace {

ModelError error_on(serving::Model& model, const graph::Graph& graph, const graph::Sample& sample,
                    Threads& threads) {
  serving::Sizes sizes = {};
  for (size_t d = 0; d < graph.dims.size(); ++d) {
    const graph::Dim& dim = graph.dims[d];
    sizes[d] = dim.by_value ? dim.range.max : sample.sizes.at(dim.name);
  }
  Tensors inputs(model.inputs(), sizes), outputs(model.outputs(), sizes);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const graph::Bytes& given = sample.inputs.at(inputs.at(i).name());
    std::memcpy(inputs.at(i).data(), given->data(), given->size());
  }
  model.run(inputs.data(), inputs.size(), outputs.data(), outputs.size(),
            {&threads.executor, nullptr});
  const graph::Graph fixed = graph.dims.empty() ? graph : graph::at_sizes(graph, sample.sizes);
  const std::vector<graph::Bytes> wanted =
      graph::interpret(fixed, sample.inputs, parallel_on(threads.pool));
  ModelError error;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const graph::Value& v = fixed.values[fixed.outputs[i]];
    const TensorView got = outputs.found(model, i);
    const double off = graph::share_off(
        v.elem,
        {static_cast<const char*>(got.data), static_cast<size_t>(bytes_for(got.elem, got.count()))},
        *wanted[i]);
    if (i > 0 && off <= error.worst) continue;
    error = {off, v.name};
  }
  return error;
}

}  // namespace

ModelError error_of_model(const std::string& file, const graph::Graph& graph,
                          const std::vector<graph::Sample>& samples, const CommonOptions& options) {
  serving::ModelOptions own;
  own.threads = options.threads;
  if (Target::parse(options.target).is_cuda()) own.emulate = load_emulated_kernel;
  serving::Model model(file, own);
  Threads threads(thread_count(options));
  ModelError error;
  for (const graph::Sample& sample : samples) {
    const ModelError one = error_on(model, graph, sample, threads);
    if (error.output.empty() || one.worst > error.worst) error = one;
  }
  return error;
}

}  // namespace tilewright::cli
