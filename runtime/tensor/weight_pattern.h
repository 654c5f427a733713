// The N:M pattern of a sparse weight: which elements stand in one group, what breaks the pattern, and
// pruning to it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/tensor_expr.h"
#include "runtime/tensor/array.h"

namespace tilewright {

// A group is `of` neighbours along k by `vector` neighbouring columns (fewer at the ends). In at most
// `keep` of its rows an element may be worth anything: differ from its zero point, or from 0 where
// the weight has none.
class WeightPattern {
 public:
  // Requires that the format is sparse and that `shape` is the weight's.
  WeightPattern(WeightFormat format, std::vector<int64_t> shape);

  const WeightFormat& format() const { return format_; }
  // Whether test data may be anything at this element of the weight. The rows that are kept in a
  // group are a function of the group's place.
  bool keeps_seeded(int64_t flat_index) const;
  // The number of the element's group.
  int64_t group_of(int64_t flat_index) const;
  // The element of `scale` and `zero` that belongs to this element of the weight.
  int64_t scale_index(int64_t flat_index) const;

  // The first group that breaks the pattern, in words: "column 5, rows 8 to 11 of k: rows 8, 9 and
  // 10 are not zero; 2:4 allows 2". `zero` may be null.
  std::optional<std::string> fault(const HostArray& weight, const HostArray* zero) const;
  // Keeps in each group the `keep` rows of the largest magnitude, summed over the group's columns
  // (of equal ones the first), and makes the others worth nothing.
  void prune(HostArray* weight, const HostArray* zero) const;

 private:
  struct Place {  // of an element
    int64_t own, k, column;
  };
  struct Group {
    int64_t own, first_row, rows, first_column, columns;
  };
  Place place_of(int64_t flat_index) const;
  int64_t group_of(const Place& place) const;
  int64_t flat_of(const Place& place) const;
  void for_each_group(const std::function<bool(const Group&)>& visit) const;
  double worth(const HostArray& weight, const HostArray* zero, int64_t flat_index) const;

  WeightFormat format_;
  std::vector<int64_t> shape_;
  int64_t own_ = 1, k_ = 1, columns_ = 1;
  std::vector<int64_t> units_;  // numbers under `of` with no common factor with it
};

}  // namespace tilewright
