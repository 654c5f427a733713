// How far a model file's outputs lie from those of the program that it was made of.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "graph/graph.h"
#include "graph/precision/choice.h"

namespace tilewright::cli {

struct ModelError {
  double worst = 0;    // the largest difference, as a share of the output's largest magnitude
  std::string output;  // where it is
};

// Runs the file, in the emulator where its kernels are a GPU's, and interprets `graph`, which computes in f64, on
// the same inputs.
ModelError error_of_model(const std::string& file, const graph::Graph& graph,
                          const std::vector<graph::Sample>& samples, const CommonOptions& options);

}  // namespace tilewright::cli
