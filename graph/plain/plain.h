// Plain nodes: operators that give as many elements as values of a run say. Each has one routine, which the
// interpreter and the serving library call. No kernel is tuned for it.
//
//   dim "found": at most 100 as 2137
//   "places": i64[2, 2137] = plain "NonZero" (X="x")
//   "k": i64[1913] = plain "Range:size=1" (limit="n")
//   "y": f32[2137], "i": i64[2137], "j": i64[8], "c": i64[2137] = plain "Unique:axis=0,sorted=0" (X="z")
//
// The node says the size of one dimension, 0 or more. It writes its outputs compactly at that size.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/sizes.h"

namespace tilewright::graph {

struct PlainTensor {
  ElemType elem = ElemType::f32;
  Shape shape;           // in this run; empty for outputs
  char* data = nullptr;  // null: it is left out
};

struct PlainOperator;

// An operator with its options.
struct Plain {
  const PlainOperator* op = nullptr;
  int64_t axis = -1;     // -1: all elements are one row
  bool sorted = true;    // results in the order of their values, not in that of their first places
  bool centers = false;  // boxes are centers and sizes, not corners
  bool size = false;     // the numbers go to a size, which is 0 or more

  // "Unique:axis=1,sorted=0". Throws GraphError that names what is known.
  static Plain parse(const std::string& text);
};

// The node's routine with its tensors.
class PlainRoutine {
 public:
  // Throws GraphError that names the node: operands, types and shapes that are not the operator's, or no
  // dimension of the graph that the outputs have.
  PlainRoutine(const Graph& graph, const Node& node);

  // The dimension of the graph whose size the node says.
  size_t dim() const { return dim_; }
  // Values of the graph, by the places of tensors; kNone for an operand that is left out.
  static constexpr size_t kNone = SIZE_MAX;
  const std::vector<size_t>& inputs() const { return inputs_; }
  const std::vector<size_t>& outputs() const { return outputs_; }
  // The place of the elements.
  void bind_input(size_t place, char* data) { in_[place].data = data; }
  void bind_output(size_t place, char* data) { out_[place].data = data; }

  // The memory of all runs, which allocate nothing then.
  void reserve() { scratch_ = std::make_unique_for_overwrite<char[]>(scratch_bytes_); }
  // Requires reserve(). Writes the outputs, and returns the size. `dims` are the sizes of the graph's dimensions in this run.
  // Throws GraphError where the size is above what the graph says, before anything is written beyond it.
  int64_t run(const int64_t* dims);

 private:
  void find_dim(const Graph& graph, const Node& node, const std::vector<Shape>& shapes);

  Plain plain_;
  std::string label_;
  size_t dim_ = 0;
  int64_t most_ = 0;
  std::vector<size_t> inputs_, outputs_;
  std::vector<std::vector<Size>> sizes_;  // of inputs
  std::vector<PlainTensor> in_, out_;
  size_t scratch_bytes_ = 0;
  std::unique_ptr<char[]> scratch_;
};

// The tensors of one call. Outputs have room for the most.
struct PlainCall {
  const Plain& plain;
  std::span<const PlainTensor> in, out;
  int64_t most;
  char* scratch;
};

// Throws GraphError where a size is above the call's.
void require_room(const PlainCall& call, int64_t size);

// Routines; each returns the size that it found.
int64_t plain_nonzero(const PlainCall& call);
int64_t plain_compress(const PlainCall& call);
int64_t plain_unique(const PlainCall& call);
int64_t plain_suppression(const PlainCall& call);
int64_t plain_range(const PlainCall& call);
int64_t plain_slice(const PlainCall& call);

}  // namespace tilewright::graph
