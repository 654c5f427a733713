// Sizes that each run gives: what stand-ins in shapes and specs mean (graph.h).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "graph/graph.h"

namespace tilewright::graph {

inline constexpr size_t kMostDims = 8;

// A number times sizes of the graph's dimensions, each as often as `powers` says.
struct Size {
  int64_t number = 1;
  std::array<uint8_t, kMostDims> powers = {};

  bool fixed() const { return powers == std::array<uint8_t, kMostDims>{}; }
  // At these sizes of the graph's dimensions. Allocates nothing.
  int64_t at(const int64_t* dims) const;
  bool operator==(const Size&) const = default;
};

// The size that a number of the graph's shapes or specs means.
Size size_of(const Graph& graph, int64_t number);
// "12*batch".
std::string to_string(const Graph& graph, const Size& size);
DimSize range_of(const Graph& graph, const Size& size);
bool is_ranged(const Graph& graph, const Value& value);
// Whether plain nodes say the size, or one of the value's sizes.
bool depends_on_values(const Graph& graph, const Size& size);
bool depends_on_values(const Graph& graph, const Value& value);
// At these sizes of the graph's dimensions.
Shape shape_at(const Graph& graph, const Value& value, const int64_t* dims);
// At the largest sizes.
int64_t most_bytes(const Graph& graph, const Value& value);

// Gives all bodies the dimensions of the graph.
void share_dims(Graph* graph);

// Whether an expression holds a number that stands for the size of a run: its kernel would have that number.
bool holds_stand_in(const std::string& expression);

// A node's spec with ranges in place of stand-ins, and the size of each of its dynamic dimensions. Throws
// GraphError that names the node where a number that is no size of the spec depends on one, or where an
// operand has other sizes than its value.
struct RangedSpec {
  std::string spec;
  std::map<std::string, Size> sizes;
};
RangedSpec ranged(const Graph& graph, const Node& node);

// Throws GraphError that names a node or value which is not the same in two graphs of one model that were made
// with different stand-ins: a number of it depends on a size in another way than as a factor.
void require_same(const Graph& graph, const Graph& other);

// The graph at one size of each of its dimensions but those that plain nodes say, which stay. Throws GraphError for
// a size that is missing or out of its range.
Graph at_sizes(const Graph& graph, const std::map<std::string, int64_t>& sizes);

// The same graph with other numbers for its dimensions, in their order.
Graph with_stand_ins(const Graph& graph, const std::array<int64_t, kMostDims>& stand_ins);

}  // namespace tilewright::graph
