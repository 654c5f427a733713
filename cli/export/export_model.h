// Whole models as C that stands alone: their kernels, their constants, and a program that calls them in turn.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/export/export_kernel.h"
#include "graph/graph.h"

namespace tilewright::cli {

struct ExportedModel {
  std::string name;  // a C identifier: files and functions are named after it
  graph::Graph graph;
  std::function<std::string(const graph::Value& constant)> data;  // its elements
  std::function<ExportedKernel(const Workload& workload)> kernel;
};

/// Names and contents of the files: NAME.h, NAME.c, NAME.constants, those of each kernel, and a Makefile that
/// builds libNAME.so and libNAME.a. Throws UsageError for a model with ranges of sizes or
/// states, and what `data` and `kernel` throw.
std::vector<std::pair<std::string, std::string>> export_model(const ExportedModel& model);

}  // namespace tilewright::cli
