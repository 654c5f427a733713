#include "cli/models/program_file.h"

#include <fmt/format.h>

#include "cli/models/onnx_file.h"
#include "graph/program.h"
#include "graph/sizes.h"
#include "runtime/error.h"

namespace tilewright::cli {
namespace {

// Narrows the ranges of the program. A range of one size becomes a number in its place.
void narrow_dims(graph::Graph* graph, const std::map<std::string, DimSize>& given,
                 std::array<int64_t, graph::kMostDims>* numbers) {
  for (const auto& [name, size] : given) {
    std::string names;
    bool found = false;
    for (size_t d = 0; d < graph->dims.size(); ++d) {
      graph::Dim& dim = graph->dims[d];
      if (dim.by_value) continue;
      names += (names.empty() ? "" : ", ") + dim.name;
      if (dim.name != name) continue;
      found = true;
      if (size.min < dim.range.min || size.max > dim.range.max) {
        throw UsageError(
            fmt::format("--dim {}: the program has {}..{}", name, dim.range.min, dim.range.max));
      }
      dim.range = size;
      if (!size.is_dynamic()) (*numbers)[d] = size.max;
    }
    if (!found) {
      throw UsageError(fmt::format("--dim {}: the program has {}", name,
                                   names.empty() ? "no dimensions of that kind" : names));
    }
  }
}

}  // namespace

graph::Graph read_program_file(const std::string& path, const std::vector<std::string>& dims,
                               const onnx::StandIns& stand_ins) {
  graph::Graph graph = graph::read_program(path);
  std::array<int64_t, graph::kMostDims> numbers = stand_ins;
  narrow_dims(&graph, read_dims(dims), &numbers);
  graph = graph::with_stand_ins(graph, numbers);
  std::erase_if(graph.dims, [](const graph::Dim& d) { return !d.range.is_dynamic(); });
  graph::verify(graph);
  return graph;
}

}  // namespace tilewright::cli
