#include "models/weights/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/error.h"
#include "runtime/tensor/element.h"

namespace tilewright::weights {
namespace {

// A code and its value.
struct CodeValue {
  double value = 0;
  int16_t code = 0;
};

// The finite values of a type's codes, the least first.
std::vector<CodeValue> values_of(ElemType type) {
  std::vector<CodeValue> values;
  for (int code = 0; code < 1 << bits_of(type); ++code) {
    const auto byte = static_cast<uint8_t>(code);
    const double value = load_element(type, &byte, 0);
    if (std::isfinite(value)) values.push_back({value, static_cast<int16_t>(code)});
  }
  std::ranges::stable_sort(values, {}, &CodeValue::value);
  return values;
}

// The least float that is no smaller.
float rounded_up(double scale) {
  const auto near = static_cast<float>(scale);
  return near < scale ? std::nextafter(near, std::numeric_limits<float>::infinity()) : near;
}

// How the elements of a group become codes of one type.
class Coder {
 public:
  explicit Coder(ElemType type) : is_integer_(is_integer(type)), has_zeros_(has_zeros(type)) {
    const int bits = bits_of(type);
    if (!is_integer_) {
      table_ = values_of(type);
    } else if (has_zeros_) {
      high_ = (1 << bits) - 1;
    } else {
      low_ = -(1 << (bits - 1));
      high_ = -low_ - 1;
    }
  }

  // Writes the codes, and adds the scale and the zero point.
  void encode(std::span<const float> group, int16_t* codes, RowCodes* all) const {
    const auto [least, most] = std::ranges::minmax(group);
    const double low = std::min(least, 0.0f), high = std::max(most, 0.0f);
    const double largest = std::max(-low, high);
    const float scale = rounded_up(largest > 0 ? wanted_scale(low, high) : 1);
    // Codes and zero points of 0 give 0 however a kernel forms its sums.
    double zero = 0;
    if (has_zeros_ && largest > 0) {
      zero = std::clamp<double>(std::nearbyint(low_ - low / scale), 0, high_);
    }
    for (size_t i = 0; i < group.size(); ++i) codes[i] = code_of(group[i] / double{scale}, zero);
    all->scales.push_back(scale);
    if (has_zeros_) all->zeros.push_back(static_cast<uint8_t>(zero));
  }

 private:
  double wanted_scale(double low, double high) const {
    if (has_zeros_) return (high - low) / (high_ - low_);
    return std::max(-low, high) / (is_integer_ ? high_ : table_.back().value);
  }

  int16_t code_of(double scaled, double zero) const {
    if (is_integer_) {
      return static_cast<int16_t>(std::clamp<double>(std::nearbyint(scaled) + zero, low_, high_));
    }
    const auto above = std::ranges::lower_bound(table_, scaled, {}, &CodeValue::value);
    if (above == table_.begin()) return above->code;
    if (above == table_.end()) return table_.back().code;
    const auto below = above - 1;
    return scaled <= (below->value + above->value) / 2 ? below->code : above->code;
  }

  bool is_integer_, has_zeros_;
  std::vector<CodeValue> table_;
  int low_ = 0, high_ = 0;
};

}  // namespace

bool can_quantize(ElemType type) {
  if (is_integer(type)) return bits_of(type) >= 2 && bits_of(type) <= 8;
  switch (type) {
    case ElemType::f8e4m3:
    case ElemType::f8e5m2:
    case ElemType::f4e2m1:
    case ElemType::nf4: return true;
    default: return false;
  }
}

bool has_zeros(ElemType type) { return info(type).kind == ElemKind::UInt; }

RowCodes quantize(std::span<const float> rows, int64_t k, ElemType type, int64_t group) {
  TW_ASSERT(can_quantize(type) && k > 0 && group > 0, "codes of a type that has them");
  const auto row = static_cast<size_t>(k);
  TW_ASSERT(rows.size() % row == 0, "whole rows");
  const Coder coder(type);
  RowCodes all;
  all.codes.resize(rows.size());
  for (size_t first = 0; first < rows.size(); first += row) {
    for (size_t at = 0; at < row; at += static_cast<size_t>(group)) {
      const size_t count = std::min(static_cast<size_t>(group), row - at);
      coder.encode(rows.subspan(first + at, count), &all.codes[first + at], &all);
    }
  }
  return all;
}

}  // namespace tilewright::weights
