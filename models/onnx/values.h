// Facts on the values of a model before it runs: types, shapes, and the contents of values from
// which shapes are calculated.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/onnx/extent.h"
#include "models/onnx/model.h"

namespace tilewright::onnx {

struct Value {
  DataType type = DataType::Undefined;
  std::optional<Shape> shape;
  std::optional<Shape> contents;   // row-major; of a few integers
  const Tensor* tensor = nullptr;  // a constant of the model itself
  std::optional<double> real;      // of a constant that is written as a number
  bool constant = false;           // calculated from constants alone

  // The only element of a constant that has one.
  std::optional<double> scalar() const;
};

// The place among the inputs of an If of the value that it gives out as this output, where its condition is
// known: the results of the other branch (`else_branch`) stand in front of those of `then_branch`.
std::optional<size_t> taken_input(const Node& node, const Value& condition, size_t output);

// Infers the values node by node, and takes from the model's own notes what it cannot.
class Values {
 public:
  // `sizes` are those of the inputs' named dimensions; one without a name goes by INPUT.AXIS. Throws
  // UsageError for a dimension that is missing, or that the inputs do not have. The model outlives it.
  Values(const Model& model, const std::map<std::string, DimSize>& sizes,
         const StandIns& stand_ins = kStandIns);

  // For an unknown name, a value of which nothing is known.
  const Value& at(const std::string& name) const;
  Extents& extents() { return extents_; }
  // A value that a mapping makes and no node of the model has: its layers then read it as any other.
  void declare_made(const std::string& name, DataType type, Shape shape);

 private:
  friend class Step;
  void declare_inputs(const Model& model, const std::map<std::string, DimSize>& sizes);
  void infer(const Node& node, int64_t opset);
  void enter(const Node& holder, const Node::Body& body);
  std::optional<Shape> noted_shape(const DeclaredValue& value) const;

  Extents extents_;
  std::map<std::string, Extent> named_;  // the inputs' dimensions
  std::map<std::string, Value> values_;
  std::map<std::string, const DeclaredValue*> noted_;
};

}  // namespace tilewright::onnx
