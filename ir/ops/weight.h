// The constant operand of a contraction, in the form in which a spec's `w` says it is stored.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/ops/workload_builder.h"

namespace tilewright::ops {

// One axis of a weight as it is stored.
struct WeightAxis {
  enum Kind : uint8_t {
    Summed,  // a part of k
    Column,  // along which neighbours have scales of their own: the output's channels
    Own,     // each of its elements is a weight of its own, with its own scales
  };
  std::string name;
  Expr extent;
  Kind kind = Summed;
};

// Declares the weight `name`, stored in the spec's `w.dtype` (else in `dtype`) as `axes` say, and,
// as the spec asks, `name.scale` and `name.zero` of shape [own.., ceil(k / group), columns]. A
// low-bit weight gets a stage `name_value` that gives each element what it is worth, in the
// accumulator's type. The workload's `weight` says the same of the first one; others of a workload are
// stored alike (weight_formats()).
class WeightOperand {
 public:
  // Throws KeyError for a `w` over sizes that are not constants.
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
  std::optional<ElemType> rounded_;  // to which what codes stand for is rounded
  int64_t k_ = 1;
  WeightFormat format_;
  Buffer stored_, scale_, zero_, value_;
};

}  // namespace tilewright::ops
