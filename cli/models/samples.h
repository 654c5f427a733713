// Inputs on which compile compares programs: files, or random elements.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/precision/choice.h"

namespace tilewright::cli {

// NAME=FILE.npy of each input, several times for several samples: the first file of each input is the first
// sample. Throws UsageError and FileError for names, shapes and types that do not fit.
std::vector<graph::Sample> read_samples(const graph::Graph& graph,
                                        const std::vector<std::string>& in);

// Floats in [-1, 1), integers 0 and 1; where dimensions have ranges, at the largest sizes and at the least.
std::vector<graph::Sample> random_samples(const graph::Graph& graph);

}  // namespace tilewright::cli
