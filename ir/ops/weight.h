// The constant operand of a contraction, in the storage format that the spec's `w` keys give.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/ops/workload_builder.h"

namespace tilewright::ops {

// One axis of a stored weight.
struct WeightAxis {
  enum Kind : uint8_t {
    Summed,  // a part of k
    Column,  // the output's channels: each index along it has scales of its own
    Own,     // each index along it is a weight of its own, with its own scales
  };
  std::string name;
  Expr extent;
  Kind kind = Summed;
};

// Declares the weight `name` with the given axes, stored in the spec's `w.dtype` (else in `dtype`).
// It also declares `name.scale`, `name.zero` and `name.offset`, if the spec asks for them, of shape
// [own.., ceil(k / group), columns].
//
// A low-bit weight gets a stage `name_value` with the dequantized value of each element, in the
// accumulator's type. The workload's `weight` describes the format of the first weight; further
// ones are stored alike (weight_formats()).
class WeightOperand {
 public:
  // Throws KeyError for `w` keys on sizes that are not constants.
  WeightOperand(WorkloadBuilder& b, const std::string& name, std::vector<WeightAxis> axes);

  // The element at these indices of the stored weight, in the accumulator's type.
  Expr value(const Point& at) const;

 private:
  void describe(WorkloadBuilder& b);
  void declare_scales(WorkloadBuilder& b);
  Expr dequantized(const Point& at) const;
  Point scale_index(const Point& at) const;

  std::string name_;
  std::vector<WeightAxis> axes_;
  ElemType acc_;
  std::optional<ElemType> rounded_;  // type to which dequantized codes are rounded
  int64_t k_ = 1;
  WeightFormat format_;
  Buffer stored_, scale_, zero_, offset_, value_;
};

}  // namespace tilewright::ops
