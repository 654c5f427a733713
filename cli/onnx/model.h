// ONNX models, as far as what they compute goes: the graph's nodes, its constants, and what it says of
// the shapes of its values. Everything refers to the bytes that it was read from.
#pragma once

#include <cstdint>
#include <map>
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

struct Tensor {
  std::string name;
  DataType type = DataType::Undefined;
  std::vector<int64_t> shape;
  int64_t count = 1;
  bool external = false;  // its data lie in another file
  std::string_view raw;   // little-endian, or else one of:
  std::vector<double> reals;
  std::vector<int64_t> integers;

  // Whether its elements can be read.
  bool readable() const;
  // Requires that it is readable and 0 <= index < count.
  double at(int64_t index) const;
};

struct Attribute {
  int64_t i = 0;
  double f = 0;
  std::string s;
  std::optional<Tensor> t;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  bool graph = false;  // it holds graphs, which are not read
};

struct Node {
  std::string name, op, domain;              // the domain of ONNX's own operators is ""
  std::vector<std::string> inputs, outputs;  // "": left out
  std::map<std::string, Attribute> attributes;

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

struct Model {
  std::string path, producer, graph_name;
  std::map<std::string, int64_t> opsets;  // versions by domain
  std::vector<Node> nodes;
  std::map<std::string, Tensor> constants;
  std::vector<DeclaredValue> inputs, outputs, values;  // without the constants among the inputs
};

// Reads a model out of the bytes of a file; they have to outlive it. Throws FileError with the path
// and the byte for what is damaged, and for what is no model with a graph.
Model read_model(std::string_view bytes, const std::string& path);

}  // namespace tilewright::onnx
