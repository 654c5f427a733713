// Layers that are expressions over the axes of a node's output.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/onnx/mapping.h"

namespace tilewright::onnx {

using Sizes = std::vector<int64_t>;

// The text of one expression in the making: Y[i0, i1, ...] = value.
class IndexExpr {
 public:
  // The output is called `output` and has these sizes. A number has one axis.
  IndexExpr(const Mapping& m, const Node& node, const std::string& output, const Sizes& sizes,
            ElemType type);
  // The node's output of that number.
  IndexExpr(const Mapping& m, const Node& node, size_t output = 0);

  const Sizes& sizes() const { return sizes_; }
  const std::vector<std::string>& indices() const { return indices_; }  // "i0", "i1", ...
  std::string left(const std::string& name = "Y") const;                // "Y[i0, i1]"
  // An index over `size` elements that is reduced.
  std::string reduced(int64_t size);
  // "A[i0, i1 + 1]": an element of a value. Numbers of the model stand for themselves.
  std::string at(const std::string& value, const std::vector<std::string>& indices);
  // The element that is broadcast to this place of the output.
  std::string element(const std::string& value);
  // The same of a value that an earlier layer made, whose sizes the model does not know.
  std::string made_at(const std::string& value, const Sizes& sizes, ElemType type,
                      const std::vector<std::string>& indices);
  // An element of a constant row that this makes.
  std::string table(const std::string& what, ElemType type, const std::vector<double>& values,
                    const std::string& index);
  // An element of a constant that this makes.
  std::string constant(const std::string& what, ElemType type, const Sizes& sizes,
                       const std::vector<double>& values, const std::vector<std::string>& indices);
  // Sums in this type; else in f32, f64 or i64, by the operands.
  void accumulate(ElemType type) { acc_ = type; }
  // The type of a tensor between the operands and Y.
  void give_type(const std::string& tensor, ElemType type) { types_.emplace_back(tensor, type); }
  // The operand that this value is stays the same over launches.
  void mark_weight(const std::string& value) { weights_.push_back(value); }

  // `statements` compute Y.
  Draft finish(const std::string& statements) const;

 private:
  std::string operand(const std::string& value, const Sizes& sizes, ElemType type);

  const Mapping& m_;
  const Node& node_;
  std::string output_;
  Sizes sizes_;
  ElemType type_;
  std::optional<ElemType> acc_;
  std::vector<std::string> indices_;
  std::vector<std::pair<std::string, int64_t>> reduced_;
  struct Operand {
    std::string name, value;
    Sizes sizes;
    ElemType type;
  };
  std::vector<Operand> operands_;
  std::vector<MadeConstant> made_;
  std::vector<std::pair<std::string, ElemType>> types_;
  std::vector<std::string> weights_;
};

// The sizes of a value as numbers (Mapping::number).
Sizes sizes_of_value(const Mapping& m, const std::string& value);
std::string literal(double value);
// Elements of the two operands of a product of matrices, whose batches are broadcast: where the row of the first
// meets the column of the second. Throws NotMapped for an operand of less than two axes.
struct Factors {
  std::string a, b;
  std::string row, column;  // their indices
};
// `turned`: the second one has its last two axes exchanged.
Factors factors_of(IndexExpr& e, const Mapping& m, const std::string& a, const std::string& b,
                   bool turned = false);
// The numbers of an attribute, or of an input that the model knows; nothing where both are absent.
std::optional<Sizes> known_numbers(const Mapping& m, const Node& node, const std::string& attribute,
                                   size_t input);
// Counted from the front.
size_t checked_axis(int64_t axis, size_t rank);

}  // namespace tilewright::onnx
