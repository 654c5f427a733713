// Inputs, outputs and states of a whole model, and what a tensor has to be in the place of one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/sizes.h"
#include "serving/operand.h"
#include "tilewright/tilewright.h"

namespace tilewright::serving {

using Sizes = std::array<int64_t, graph::kMostDims>;  // of a run, by the model's dimensions

struct Port {
  std::string name;
  ElemType elem = ElemType::f32;
  std::vector<int64_t> shape;  // the largest
  std::vector<int64_t> least;
  std::vector<graph::Size> sizes;  // of the axes, over the model's dimensions
  std::vector<std::string> texts;  // of the axes: "3", "batch", "12*batch"
  size_t value = 0;                // of the graph
  std::optional<int64_t> last;  // of an input that says where writes begin: the last row that does

  std::vector<int64_t> shape_at(const Sizes& run) const;
  int64_t bytes_at(const Sizes& run) const;
};

// The port that is this value of the graph.
Port port_of(const graph::Graph& graph, size_t value);

// These throw ServingError that names the port, `what` it is and what is expected.
// All but sizes: the device, which is the host or that of `place`, the type, the number of axes.
void check_kind(const Port& port, const DLTensor* tensor, const char* what,
                const Place& place = {});
// The shape at these sizes; that the tensor is compact; and of an input that says where writes begin, its row.
void check_shape(const Port& port, const DLTensor& tensor, const Sizes& sizes, const char* what);
void check_count(size_t count, const std::vector<Port>& ports, const char* what);

}  // namespace tilewright::serving
