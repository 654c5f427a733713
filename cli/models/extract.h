// The workloads of a model, each once with how often it occurs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/command.h"
#include "graph/graph.h"
#include "ir/tensor_expr.h"
#include "models/onnx/layers.h"

namespace tilewright::cli {

struct ModelWorkload {
  std::string spec;  // a JSON object with `name` and `count`
  Workload workload;
  int64_t count = 0;
  std::vector<std::string> nodes;  // the first of each occurrence
  std::vector<std::string> notes;  // what has to be done besides, each once
};

struct ModelLeftOut {
  std::string node, op, reason;
};

struct ModelWorkloads {
  std::vector<ModelWorkload> workloads;  // in the order in which they first occur
  std::vector<ModelLeftOut> left_out;
  std::map<std::string, int64_t> opsets;
  size_t nodes = 0;
};

// The workloads that `compile` asks the database for: of the nodes of a program, and of the bodies of its loops. `path` names
// the model in messages. Throws UsageError for a program without workloads.
ModelWorkloads program_workloads(const graph::Graph& graph, const std::string& path);

// The workloads of single nodes, each with the functions that follow it: what a kernel alone computes of the model.
// Throws UsageError for dimensions that are missing or unknown, and for a model without workloads.
ModelWorkloads model_workloads(const onnx::Model& model, const std::map<std::string, DimSize>& dims,
                               const onnx::LayerOptions& options);

// {"workloads": […]}, a line a spec.
std::string spec_file(const ModelWorkloads& all);

// As the other commands of command.h.
void add_extract(CLI::App& app, Runners& runners);

}  // namespace tilewright::cli
