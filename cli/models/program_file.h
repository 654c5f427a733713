// Programs of graphs as compile takes them.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "models/onnx/extent.h"

namespace tilewright::cli {

// The program of this file, with these numbers for its dimensions. `dims` are NAME=SIZE or NAME=MIN..MAX: sizes
// and ranges within those that the program has. Throws UsageError, and what graph::read_program throws.
graph::Graph read_program_file(const std::string& path, const std::vector<std::string>& dims,
                               const onnx::StandIns& stand_ins);

}  // namespace tilewright::cli
