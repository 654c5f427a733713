// The program of a model, as a command line asks for it. `compile` and `extract` share it, so both name the same
// workloads.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/models/narrowing.h"
#include "graph/graph.h"
#include "graph/optimize.h"

namespace tilewright::cli {

struct ProgramArguments {
  CommonOptions common;
  NarrowingArguments narrowing;
  std::string model;  // an ONNX file, a GGUF file of a decoder, or the text of a program
  std::vector<std::string> dims, constants;
  bool no_fusion = false;
};
// Adds the options that change a program: the model, --dim, --const, --no-fusion, and those of its precision.
void add_program(CLI::App& command, ProgramArguments& arguments);

struct ModelProgram {
  graph::Graph model;  // as the file says, with what depends on constants alone computed
  Narrowing narrowing;
  graph::Graph graph;  // behind all passes: the nodes that run
};

// The model narrowed and behind all passes. `seconds` chooses its layouts, or estimates do. Throws GraphError.
graph::Graph optimized(graph::Graph model, const ProgramArguments& arguments,
                       const Narrowing& narrowing, const graph::Seconds& seconds = {});

// Throws UsageError for options that do not fit, FileError for files that cannot be read, GraphError for nodes
// without a kernel, and ToleranceError.
ModelProgram read_model_program(const ProgramArguments& arguments);

}  // namespace tilewright::cli
