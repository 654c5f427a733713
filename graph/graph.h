// A model as a program of workloads.
//
//   graph "model"
//   input "x": f32[1, 3, 8, 8]
//   const "w": f32[4, 3, 1, 1] = xxh3:0123456789abcdef
//   const "s": f32[2] = {0.5, 1}
//   const "b": f32[4] = from "weights.safetensors" "layer.0.bias"
//   "y": f32[1, 4, 8, 8] = "conv2d:n=1,h=8,…" (W="w", X="x") for "Conv_0"
//   "z": f32[1, 256] = view "y"
//   "a": f32[1, 64] = view "z" from 64
//   "j": f32[2, 256] = view "u", "v"
//   state "s": f32[16, 8]
//   "t": f32[16, 8] = write "r" to "s" at "p"
//   output "z"
//
// A node is a workload, a spec with the values that are its operands, or a view: another name, and
// another shape, for the same elements, for neighbouring ones among them, or for those of several values
// one after another. Elements lie row-major. An operand of a workload may have
// another shape than the value that it is, but as many elements. The type of a workload's output may be left
// out: "y" = "conv2d:…" (…). A line that begins with # says nothing.
//
// Shapes and specs hold numbers. A dimension whose size each run gives has a number that stands for it:
//   dim "batch": 1..8 as 2137
//   input "x": f32[2137, 16]
// Stand-ins are primes of their own (models/onnx/extent.h), so that passes treat such a size as one that they
// cannot cut. graph/sizes.h turns them into ranges and into the sizes of a run.
//
// A state is a value that keeps its elements from run to run, zeros at first. A write, the third kind of
// node, puts rows into it (graph/rows.h), the first one where an input says. Its output is the state behind
// that: the same memory, so that nothing reads the former one any more.
//
// A loop, the fourth kind, runs a body round after round: a graph with values of its own (loops/loops.h).
//
// A plain node, the fifth kind, says a size of the run by what it finds in its operands (plain.h):
//   dim "found": at most 100 as 1913
//   "places": i64[2, 1913] = plain "NonZero" (X="x")
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ir/ops/spec.h"
#include "ir/type.h"

namespace tilewright::graph {

using Shape = std::vector<int64_t>;
using Bytes = std::shared_ptr<const std::string>;

// A graph that is not well formed, or a text that says none; the message names the place.
class GraphError : public Error {
 public:
  using Error::Error;
};

// The number of elements; nothing where it is beyond 2^40. Sizes are 1 or more.
std::optional<int64_t> element_count(const Shape& shape);

struct Value {
  std::string name;
  ElemType elem = ElemType::f32;
  Shape shape;
  bool constant = false;
  Bytes data = nullptr;   // of a constant; null where it lies elsewhere, under `hash`
  std::string hash = {};  // "xxh3:…", of a constant without data
  // The file beside the program that holds a constant without data, and the tensor in it (program.h).
  std::string file = {}, tensor = {};

  int64_t count() const;
  int64_t bytes() const;
};

struct Loop;

struct Node {
  std::string label;       // the model's name for it
  std::string spec;        // inline; "": no workload
  std::string plain = {};  // of a plain node: its operator, with options (plain.h)
  // Values by the workload's names; of a view, "X", or of several values "X0", "X1", …; of a write, "X",
  // the state, "R", the rows, and "P", the number of the first one
  std::map<std::string, size_t> operands;  // of a loop by the names of its body's inputs
  size_t output = 0;
  std::vector<size_t> more = {};  // outputs of a loop or a plain node behind the first one
  std::shared_ptr<const Loop> loop = nullptr;  // null: it runs no body
  int64_t first = 0;                           // of a view of one value: its first element there

  bool is_workload() const { return !spec.empty(); }
  bool is_loop() const { return loop != nullptr; }
  bool is_plain() const { return !plain.empty(); }
  bool is_write() const {
    return spec.empty() && !is_loop() && !is_plain() && operands.contains("P");
  }
  bool is_view() const { return spec.empty() && !is_loop() && !is_plain() && !is_write(); }
  // All outputs, the first one in front.
  std::vector<size_t> outputs() const;
  // The values of a view, in their order. Throws GraphError where operands have other names.
  std::vector<size_t> parts() const;
};

// Makes the node a view of these values, which are one or more.
void set_parts(Node* node, const std::vector<size_t>& parts);

// A dimension whose size each run gives: by its inputs, or by a plain node of the graph.
struct Dim {
  std::string name;
  DimSize range;
  int64_t stand_in = 0;
  // A plain node says the size, which may also be 0: kernels have the range for the other sizes.
  bool by_value = false;
};

// Nodes stand behind those whose outputs they read.
struct Graph {
  std::string name;
  std::vector<Dim> dims;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<size_t> inputs, states, outputs;

  size_t add(Value value);
  // The value of that name. Throws GraphError.
  size_t find(const std::string& name) const;
};

std::string to_string(const Graph& graph);
// Throws GraphError with line, column and byte. Constants of more than a few elements come without their data.
Graph parse_graph(std::string_view text);
inline constexpr int64_t kMaxWritten = 8;  // elements of constants that may stand in the text
// Whether the text holds the elements of a constant; others go by the name of their data.
bool is_written(const Value& constant);
// The name of data in the text form.
std::string data_hash(const std::string& data);

// Throws GraphError that names the node or value: names that occur twice, reads of what was not made,
// specs that do not parse, operands that are missing or have another type or number of elements, reads of
// a state that was written since, sizes that no plain node says in front, or two do.
enum class Specs : uint8_t {
  Parsed,
  Known,  // somebody parsed them before: nothing that follows from them is checked
};
void verify(const Graph& graph, Specs specs = Specs::Parsed);

// "f32[1, 3]".
std::string type_text(const Value& value);

}  // namespace tilewright::graph
