// Test data made from a seed: any element can be computed alone, so that an oracle reads single
// elements without the array, and another process makes the same data.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ir/type.h"

namespace tilewright {

// The range of an operand's values: integers in [min, max], such as the row numbers of a gather,
// and floats in [min, max), such as scales.
struct ValueRange {
  double min, max;
  bool operator==(const ValueRange&) const = default;
};

enum class ValueKind : uint8_t {
  Ordinary,  // what timings and sums are at their usual with
  // Values that ordinary ones do not reach: zeros of both signs and mixed magnitudes among floats,
  // both ends of the range among integers, and the additions of HardValues.
  Hard,
};

// Further hard values of one operand, besides zeros, mixed magnitudes and ends of the range.
struct HardValues {
  int64_t special_every = 0;  // one infinity or NaN per so many elements; 0: none
  // The elements that a maximum or minimum compares: so many, `line_stride` apart; 0: none. Lines take
  // turns at lying wholly far below or above 0 and at having one extreme, at either end or between.
  int64_t line_length = 0, line_stride = 1;
  // Place of the extreme in every line, moved on by one from line to line, instead of all turns; -1:
  // they take turns. `line_high`: it is above the others.
  int64_t line_extreme = -1;
  bool line_high = true;
  // Rows of so many elements whose products reach an exponential: one of two is so large that only the
  // row's maximum keeps that exponential from overflow; 0: none.
  int64_t large_rows = 0;
  // The elements are lengths: 0, 1, the longest and one less take turns with lengths between.
  bool lengths = false;
  bool operator==(const HardValues&) const = default;
};

// The values of one operand. Ordinary ones without a range: floats uniform in [-1, 1) and rounded to
// their type, codes of 8 bits or less (integers, nf4, f4e2m1) uniform over all of them, wider signed integers
// in [-128, 127] and unsigned ones in [0, 255], e8m0 between 1/8 and 8.
class SeededValues {
 public:
  SeededValues(uint64_t seed, std::string_view operand, ElemType elem,
               std::optional<ValueRange> range = std::nullopt,
               std::optional<HardValues> hard = std::nullopt);

  double at(int64_t flat_index) const;
  // Writes elements [0, count) of a packed array: the values of at().
  void fill(void* data, int64_t count) const;

 private:
  uint64_t code_at(int64_t flat_index) const;
  double quantize(uint64_t fraction16, uint64_t hash) const;
  // The ordinary value of this hash, or what stands in its place.
  uint64_t hard_code(int64_t flat_index, uint64_t hash) const;
  // The element's line or row that takes turns with others, from a place that the seed chooses.
  uint64_t turn_of(int64_t line, uint64_t turns) const;
  double far_value(int64_t flat_index, double ordinary) const;
  std::optional<double> length_at(int64_t flat_index) const;
  uint64_t ordinary_code(uint64_t hash) const;
  // Whether hard values of this f32 operand follow from their hash alone.
  bool is_simple_hard_f32() const;
  float simple_hard_f32(uint64_t hash) const;
  // Whether hard values of this type of few bits follow from their hash alone: an end, or any code.
  bool is_simple_hard_code() const;

  uint64_t key_;
  ElemType elem_;
  std::optional<ValueRange> range_;
  std::optional<HardValues> hard_;
};

}  // namespace tilewright
