// How far a model file's outputs lie from those of the program that it was made of.
#pragma once

#include <string>

#include "cli/command.h"
#include "graph/graph.h"

namespace tilewright::cli {

struct ModelError {
  double worst = 0;    // the largest difference, as a share of the output's largest magnitude
  std::string output;  // where it is
};

// Runs the file, in the emulator where its kernels are a GPU's, and interprets `graph`, which computes in f64, on the same random inputs: floats in [-1, 1),
// integers 0 and 1; where dimensions have ranges, at the largest sizes and at the least.
ModelError error_of_model(const std::string& file, const graph::Graph& graph,
                          const CommonOptions& options);

}  // namespace tilewright::cli
