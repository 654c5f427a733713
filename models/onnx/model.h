// ONNX models, as far as what they compute goes: the graph's nodes, its constants, and what it says of
// the shapes of its values. Everything refers to the bytes that it was read from.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/type.h"

namespace tilewright::onnx {

// The element types of ONNX by their numbers; other numbers may stand in a file.
enum class DataType : int32_t {
  Undefined = 0,
  Float = 1,
  Uint8 = 2,
  Int8 = 3,
  Int32 = 6,
  Int64 = 7,
  Bool = 9,
  Float16 = 10,
};

// "f16" for Float16; nothing for types that operands do not have.
std::optional<ElemType> elem_type(DataType type);
// "f16", or "type 8" for those without such a name.
std::string describe(DataType type);

// Where data lie that are not in the model's file, as the model writes it.
struct ExternalPlace {
  std::string location, offset, length;  // a path from the model's folder; numbers of bytes, or ""
};

struct Tensor {
  std::string name;
  DataType type = DataType::Undefined;
  std::vector<int64_t> shape;
  int64_t count = 1;
  bool external = false;  // its data lie in another file and were not read from there
  ExternalPlace place;    // of external data
  std::string_view raw;   // little-endian, or else one of:
  std::vector<double> reals;
  std::vector<int64_t> integers;

  // Whether its elements can be read.
  bool readable() const;
  // Requires that it is readable and 0 <= index < count.
  double at(int64_t index) const;
  // The same of integers and booleans, exact; what is beyond int64_t is its largest number.
  int64_t whole_at(int64_t index) const;
};

struct GraphPart;

struct Attribute {
  int64_t i = 0;
  double f = 0;
  std::string s;
  std::optional<Tensor> t;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::vector<std::string> strings;
  std::vector<std::shared_ptr<GraphPart>> graphs;  // until the model is read: see Node::within
};

struct Node {
  std::string name, op, domain;              // the domain of ONNX's own operators is ""
  std::vector<std::string> inputs, outputs;  // "": left out
  std::map<std::string, Attribute> attributes;
  // Of a node out of another one's graph: where it stands and how often it runs; else "". Such nodes
  // stand in front of the one that holds them, which has their graphs' outputs as further inputs. The
  // names of what they make begin with its first output.
  std::string within;
  bool holds_graphs = false;
  // The bodies that the node is in, the outermost first; and those that it holds, with the values that they are
  // given and give.
  std::vector<std::string> bodies;
  struct Body {
    std::string name;
    std::vector<std::string> inputs, outputs;
  };
  std::vector<Body> held;

  // "MatMul", "com.microsoft.MatMulNBits".
  std::string full_op() const { return domain.empty() ? op : domain + "." + op; }
  // The name, or else that of the first output.
  std::string label() const;
  bool has_input(size_t i) const { return i < inputs.size() && !inputs[i].empty(); }
  const Attribute* find(const std::string& attribute) const;
  int64_t integer(const std::string& attribute, int64_t fallback) const;
  double real(const std::string& attribute, double fallback) const;
  std::string text(const std::string& attribute, const std::string& fallback) const;
  std::optional<std::vector<int64_t>> integers(const std::string& attribute) const;
};

// A size as the file has it: a number, a name, or neither.
struct DeclaredSize {
  std::optional<int64_t> number;
  std::string name;
};

struct DeclaredValue {
  std::string name;
  DataType type = DataType::Undefined;
  std::optional<std::vector<DeclaredSize>> shape;
};

// A graph, of the model or of a node.
struct GraphPart {
  std::string graph_name;
  std::vector<Node> nodes;
  std::map<std::string, Tensor> constants;
  std::vector<DeclaredValue> inputs, outputs, values;  // without the constants among the inputs
  std::vector<DeclaredValue> body_inputs;  // what its nodes' own graphs are given at each run
};

struct Model : GraphPart {
  std::string path, producer;
  std::map<std::string, int64_t> opsets;  // versions by domain
};

// Makes a constant of an input: all of its elements are this number. Throws UsageError where the model has no such
// input, or where a size or the type of it is not known.
void fix_input(Model* model, const std::string& name, double value);

// Reads a model out of the bytes of a file; they have to outlive it. What other files hold
// (models/onnx/external.h) is not read. Throws FileError with the path
// and the byte for what is damaged, and for what is no model with a graph.
Model read_model(std::string_view bytes, const std::string& path);

}  // namespace tilewright::onnx
