#include "models/weights/quantized_weight.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/weights/packed_words.h"
#include "runtime/error.h"
#include "runtime/tensor/element.h"

namespace tilewright::weights {
namespace {

std::vector<float> row_of(const HostArray& array, int64_t row) {
  int64_t n = array.shape()[1];
  std::vector<float> values(static_cast<size_t>(n));
  for (int64_t j = 0; j < n; ++j) {
    values[static_cast<size_t>(j)] =
        static_cast<float>(load_element(array.elem(), array.data(), row * n + j));
  }
  return values;
}

// The formula's values for one group.
struct GroupRow {
  std::vector<float> scale, zero, offset;
};

std::vector<GroupRow> groups_of(const QuantizedWeight& w) {
  std::vector<GroupRow> rows(static_cast<size_t>(w.groups()));
  for (int64_t g = 0; g < w.groups(); ++g) {
    GroupRow& row = rows[static_cast<size_t>(g)];
    row.scale = row_of(w.scale, g);
    if (w.zero) row.zero = row_of(*w.zero, g);
    if (w.offset) row.offset = row_of(*w.offset, g);
  }
  return rows;
}

// The rows sorted by their groups, rows of one group in the order in which they stand.
std::vector<int64_t> rows_by_group(const QuantizedWeight& w) {
  std::vector<int64_t> order(static_cast<size_t>(w.k()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return w.group_at(a) < w.group_at(b); });
  return order;
}

HostArray with_rows(const HostArray& from, const std::vector<int64_t>& order) {
  HostArray to(from.name(), from.elem(), from.shape());
  int64_t n = from.shape()[1];
  for (size_t r = 0; r < order.size(); ++r) {
    for (int64_t j = 0; j < n; ++j) {
      to.set(static_cast<int64_t>(r) * n + j, from.get(order[r] * n + j));
    }
  }
  return to;
}

}  // namespace

std::vector<float> dequantize(const QuantizedWeight& w) {
  std::vector<GroupRow> groups = groups_of(w);
  std::vector<float> values(static_cast<size_t>(w.k() * w.n()));
  auto n = static_cast<size_t>(w.n());
  for (int64_t i = 0; i < w.k(); ++i) {
    const GroupRow& g = groups[static_cast<size_t>(w.group_at(i))];
    std::vector<float> q = row_of(w.q, i);
    float* row = &values[static_cast<size_t>(i) * n];
    for (size_t j = 0; j < n; ++j) {
      float value = w.offset ? q[j] * g.scale[j] + g.offset[j]
                             : (w.zero ? q[j] - g.zero[j] : q[j]) * g.scale[j];
      row[j] = static_cast<float>(round_to(w.value_type, value));
    }
  }
  return values;
}

WeightOperands to_operands(QuantizedWeight w, const std::string& what) {
  WeightOperands operands;
  if (!w.group_of_row.empty()) {
    operands.order = rows_by_group(w);
    for (size_t r = 0; r < operands.order.size(); ++r) {
      int64_t group = w.group_at(operands.order[r]);
      if (group != static_cast<int64_t>(r) / w.group) {
        throw FileError(
            fmt::format("{}: expected {} rows in group {}, found another number of them", what,
                        w.group, std::min<int64_t>(group, r / w.group)));
      }
    }
    w.q = with_rows(w.q, operands.order);
  }
  operands.arrays.push_back(std::move(w.q));
  operands.arrays.push_back(std::move(w.scale));
  if (w.zero) operands.arrays.push_back(std::move(*w.zero));
  if (w.offset) operands.arrays.push_back(std::move(*w.offset));
  return operands;
}

}  // namespace tilewright::weights
