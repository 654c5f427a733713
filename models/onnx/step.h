// One node during inference, and the rules that say what its outputs are.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/onnx/values.h"

namespace tilewright::onnx {

// Outputs that a rule does not set stay unknown.
class Step {
 public:
  Step(const Node& node, int64_t opset, Values& values)
      : node(node), opset(opset), extents(values.extents_), values_(values) {}

  const Node& node;
  const int64_t opset;  // of the node's domain
  Extents& extents;

  // Nothing is known of the value of an input that is left out.
  const Value& input(size_t i) const;
  const Value& value(const std::string& name) const { return values_.at(name); }
  const std::optional<Shape>& shape(size_t i) const { return input(i).shape; }
  DataType type(size_t i = 0) const { return input(i).type; }
  // The contents of an input, all of them plain numbers.
  std::optional<std::vector<int64_t>> numbers(size_t i) const;
  // Whole numbers that are an attribute in old models and an input in new ones.
  std::optional<std::vector<int64_t>> numbers(const std::string& attribute, size_t i) const;

  // An element of an input of integers; nothing where its place is not known.
  std::optional<Element> element(size_t i, int64_t place) const;
  // All of an input with one axis.
  std::optional<std::vector<Element>> elements(size_t i) const;
  // A size that an element says, which is `most` at most where nothing else was said. Nothing where nothing says the
  // most.
  std::optional<Extent> size(const Element& e, std::optional<int64_t> most = std::nullopt);
  // As many numbers as go from one number to another.
  std::optional<Extent> calculate(CalculatedSize size, std::optional<int64_t> most);

  void set(size_t output, DataType type, std::optional<Shape> shape,
           std::optional<Shape> contents = std::nullopt);
  // The first output is this number.
  void set_real(double value);
  // The first output is like the first input.
  void keep() { set(0, type(), shape(0)); }

 private:
  Values& values_;
};

using Rule = void (*)(Step&);
using Rules = std::map<std::string, Rule>;  // by full_op()

const Rules& elementwise_rules();
const Rules& view_rules();     // what moves elements, and what calculates shapes
const Rules& size_rules();     // what has sizes that its inputs say
const Rules& product_rules();  // products and convolutions
const Rules& row_rules();      // reductions, normalizations, attention
const Rules& choice_rules();   // what chooses, repeats or regroups elements, and recurrent layers

// An axis counted from the front, or nothing when there is no such axis.
std::optional<size_t> axis_of(int64_t axis, size_t rank);
// The axis along which a Scan takes or gives rows, by the place among those that it scans.
int64_t scan_axis(const Node& scan, const std::string& attribute, size_t place);
// As operators of two tensors combine shapes; nothing where they do not fit.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);
// Contents are kept only of so many elements.
inline constexpr int64_t kMaxContents = 64;
// Shapes of more axes are taken for unknown: a few operators could make them grow without end.
inline constexpr size_t kMaxAxes = 32;

// The rule of operators whose output has the type and the shape of their input.
inline void keep(Step& s) { s.keep(); }

}  // namespace tilewright::onnx
