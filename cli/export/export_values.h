// The test data of the program that checks an exported kernel: values by a formula that the oracle
// evaluates here and C evaluates there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/tensor/operands.h"

namespace tilewright::cli {

/// C that the functions of all operands use.
std::string export_values_prelude();

/// The values of one operand: multiples of 2^-23 in [-1, 1) for wide floats, small integers, and one
/// of 16 codes for the rest; within the operand's range where it has one. Of an N:M sparse weight N
/// rows of each group have such values, the others are worth nothing.
class CheckValues {
 public:
  /// `operands` are all of the workload, among them the zero points of a sparse weight.
  CheckValues(const OperandInfo& info, const std::vector<OperandInfo>& operands);

  double at(int64_t index) const;
  /// "static float value_A(int64_t i) …" and "static void fill_A(void* data, int64_t count) …". A
  /// sparse weight's call those of its zero points.
  std::string c_functions() const;

 private:
  struct Place {  // of an element of a sparse weight
    int64_t own = 0, k = 0, column = 0;
  };
  bool wide_float() const { return info_.elem == ElemType::f32 || info_.elem == ElemType::f64; }
  bool plain_integer() const { return is_integer(info_.elem) && bits_of(info_.elem) >= 8; }
  bool coded() const { return !wide_float() && !plain_integer(); }
  double step() const { return (info_.range->max - info_.range->min) / 16; }
  uint64_t code(int k) const;  // of 16
  std::string c_type() const;
  std::string c_value() const;
  int64_t extent(const std::vector<int>& dims) const;
  Place place_of(int64_t index) const;
  bool kept(const Place& place) const;
  std::string c_pattern() const;

  OperandInfo info_;
  uint64_t key_;
  std::shared_ptr<const CheckValues> zero_;  // of a sparse weight that has zero points
};

}  // namespace tilewright::cli
