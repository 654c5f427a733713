// How single nodes become specs.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "models/onnx/layers.h"
#include "models/onnx/patterns.h"
#include "models/onnx/spec_text.h"

namespace tilewright::onnx {

// Why a node has no spec.
class NotMapped : public Error {
 public:
  using Error::Error;
};

// A layer in the making.
struct Draft {
  SpecText spec;
  Layer layer;
};

// The graph as mappings see it. Its functions throw NotMapped.
class Mapping {
 public:
  Mapping(const Graph& graph, const LayerOptions& options, const std::set<const Node*>& taken)
      : graph(graph), options(options), taken_(taken) {}

  const Graph& graph;
  const LayerOptions& options;

  const Value& input(const Node& node, size_t i) const;
  const Shape& shape(const std::string& value) const;
  const Shape& shape(const Node& node, size_t i) const;
  // A type that operands have; u8 for truth values of whole models.
  ElemType elem(const std::string& value) const;
  // The range of a size; what can be 0 begins at 1. In whole models its number().
  DimSize size(const Extent& e) const;
  // A size as a number of 1 or more, with stand-ins for named sizes.
  int64_t number(const Extent& e) const;
  int64_t fixed_size(const Extent& e, const std::string& what) const;
  DimSize product(const Shape& sizes, size_t from = 0, size_t to = SIZE_MAX) const;
  Extents& extents() const { return graph.values().extents(); }

  // A layer for `node` with its first output, and the key `dtype` where it is not the usual one.
  Draft draft(const std::string& op, const Node& node) const;
  void add_type(Draft* draft, ElemType type) const;

  // Takes the functions, biases and sums that follow into the layer and adds the key `epilogue`.
  // `channel` is the axis of the output that a bias follows. `steps` are those that it has.
  void fuse(Draft* draft, size_t channel, std::vector<std::string> steps = {}) const;

 private:
  bool fuse_function(Draft* draft, std::vector<std::string>* steps) const;
  bool fuse_sum(Draft* draft, size_t channel, std::vector<std::string>* steps) const;

  const std::set<const Node*>& taken_;  // what other layers stand for
};

// The note of a product of two calculated operands.
inline constexpr const char* kPackedEachRun = "B is calculated: it is packed in each run";

using Mapped = std::vector<Draft>;
using MapFn = Mapped (*)(const Mapping&, const Node&);
using MapFns = std::map<std::string, MapFn>;  // by full_op()

const MapFns& product_mappings();
const MapFns& quantized_mappings();
const MapFns& convolution_mappings();
const MapFns& row_mappings();
const MapFns& elementwise_mappings();
const MapFns& attention_mappings();
// Layers that say a size which a run calculates.
Mapped size_drafts(const Mapping& m, const CalculatedSize& size);
// Expressions for whole models (LayerOptions::whole): what has no spec, or one that says less.
const MapFns& whole_mappings();
// Whether a whole model takes the expression of a node that has a spec, too: functions of elements,
// over the axes that they have, and rows that are chosen by other integers than i32.
bool prefers_expression(const Mapping& m, const Node& node);

// [.., m, k] times a constant or calculated matrix [.., k, n], as the last two axes of the two values
// say; for `transposed` ones the other way round. Without its types and epilogue.
Draft matrix_product(const Mapping& m, const Node& node, const std::string& a, const std::string& b,
                     bool trans_a, bool trans_b);
// Where the model dequantizes the operand of a draft, a constant, as (q - zero) * scale: the keys `w`
// of the stored form, which takes the operand's place. `k_axis` is the one that is summed over,
// `n_axis` that of the columns, along which scales may differ. Otherwise false, and nothing changes.
bool add_stored_weight(const Mapping& m, Draft* draft, const std::string& operand, size_t k_axis,
                       size_t n_axis);
// The normalization that begins with the node, written out in several.
std::optional<Draft> written_out_norm(const Mapping& m, const Node& node);
// The function of `input` that begins with the node.
Draft written_out_function(const Mapping& m, const Node& node, const std::string& input,
                           const FunctionMatch& match);

}  // namespace tilewright::onnx
