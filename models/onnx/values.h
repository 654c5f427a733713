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

// An element of a value: what is known of it, or the place where a run finds it, in front of nodes that only move it.
struct Element {
  std::optional<Extent> known;
  std::string value;
  int64_t place = 0;

  std::string text() const;  // "n[0]", "3"
};

// A size that a run calculates: as many numbers as go from `start` to `limit`.
struct CalculatedSize {
  std::string name;
  const Node* node = nullptr;  // the first that has it
  // A size that an element says, which is 0 or more.
  bool is_size = false;
  Element start = {Extent(0), "", 0}, limit;
  int64_t step = 1;
  // Of a slice: the value whose axis it takes, within which both bounds are kept.
  std::string sliced = {};
  size_t axis = 0;

  // Whether a plain node of its own says the size, and the value that this makes: the elements' places.
  bool has_places() const { return !sliced.empty() || !limit.value.empty(); }
  std::string places() const { return name + "/places"; }
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
  // In the order in which nodes have them.
  const std::vector<CalculatedSize>& calculated() const { return calculated_; }
  // Null for other sizes.
  const CalculatedSize* calculated(const Extent& size) const;
  // The size whose most nothing says, so that the node's outputs have no shapes; "" for other nodes.
  std::string without_most(const Node& node) const;
  // A value that a mapping makes and no node of the model has: its layers then read it as any other.
  void declare_made(const std::string& name, DataType type, Shape shape);

 private:
  friend class Step;
  void declare_inputs(const Model& model, const std::map<std::string, DimSize>& sizes);
  void infer(const Node& node, int64_t opset);
  void enter(const Node& holder, const Node::Body& body);
  void require_known_names(const Model& model) const;
  std::optional<Shape> noted_shape(const DeclaredValue& value) const;
  std::optional<Element> element(std::string value, int64_t place) const;
  std::optional<Element> source_of_element(const Node& node, int64_t place) const;
  std::optional<Extent> calculate(CalculatedSize size, std::optional<int64_t> most);

  Extents extents_;
  std::map<std::string, Extent> named_;  // the inputs' dimensions
  std::map<std::string, Value> values_;
  std::map<std::string, const DeclaredValue*> noted_;
  std::map<std::string, DimSize> given_;  // by the caller
  std::map<std::string, const Node*> producers_;
  std::vector<CalculatedSize> calculated_;
  std::map<const Node*, std::string> without_most_;
};

}  // namespace tilewright::onnx
