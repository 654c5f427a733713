#include "provider/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "provider/graph_view.h"
#include "provider/runner.h"

namespace tilewright::provider {
namespace {

// Outputs that are all smaller count by this magnitude: after a sigmoid, rounding of the sum in front of it is a
// large share of a small value.
constexpr double kLeastMagnitude = 1e-3;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double from_f16(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = 0;
  if (exponent == 31)
    value = fraction == 0 ? kInfinity : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    value = std::ldexp(fraction, -24);
  else
    value = std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}
double from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// In [-1, 1) by steps of 1/64, which every float type holds exactly.
double next_value(uint64_t& state) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return static_cast<double>(static_cast<int>(state >> 57) - 64) / 64;
}

uint16_t to_f16(double value) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::abs(value), &exponent);  // in [0.5, 1)
  const auto bits =
      static_cast<uint16_t>((exponent + 14) << 10 | (static_cast<int>(fraction * 2048) & 1023));
  return static_cast<uint16_t>(bits | (value < 0 ? 0x8000 : 0));
}

template <class T>
void store(char* at, T value) {
  std::memcpy(at, &value, sizeof value);
}
template <class T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

size_t width_of(int32_t elem) {
  const std::optional<DLDataType> type = dl_type(elem);
  return type ? type->bits / 8 : 1;
}

bool is_float(int32_t elem) {
  return elem == ort::kF32 || elem == ort::kF64 || elem == ort::kF16 || elem == ort::kBf16;
}

double float_at(const char* at, int32_t elem) {
  switch (elem) {
    case ort::kF64: return load<double>(at);
    case ort::kF16: return from_f16(load<uint16_t>(at));
    case ort::kBf16: return from_bf16(load<uint16_t>(at));
    default: return load<float>(at);
  }
}

double floats_apart(const char* got, const char* wanted, size_t count, int32_t elem) {
  const size_t width = width_of(elem);
  double largest = 0, apart = 0;
  for (size_t i = 0; i < count * width; i += width) {
    const double a = float_at(got + i, elem), b = float_at(wanted + i, elem);
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      if (std::isfinite(b)) largest = std::max(largest, std::abs(b));
      continue;
    }
    if (!std::isfinite(a) || !std::isfinite(b)) return kInfinity;
    apart = std::max(apart, std::abs(a - b));
    largest = std::max(largest, std::abs(b));
  }
  return apart == 0 ? 0 : apart / std::max(largest, kLeastMagnitude);
}

double integers_apart(const char* got, const char* wanted, size_t count, int32_t elem) {
  const size_t width = width_of(elem);
  size_t differ = 0;
  for (size_t i = 0; i < count * width; i += width) {
    if (std::memcmp(got + i, wanted + i, width) == 0) continue;
    const int a = elem == ort::kU8 ? static_cast<uint8_t>(got[i]) : static_cast<int8_t>(got[i]);
    const int b =
        elem == ort::kU8 ? static_cast<uint8_t>(wanted[i]) : static_cast<int8_t>(wanted[i]);
    const bool is_code = elem == ort::kU8 || elem == ort::kI8;
    if (!is_code || std::abs(a - b) > 1) ++differ;
  }
  return count == 0 ? 0 : static_cast<double>(differ) / static_cast<double>(count);
}

}  // namespace

void fill(std::vector<char>& data, int32_t elem, uint64_t seed) {
  uint64_t state = seed + 1;
  const size_t width = width_of(elem);
  for (size_t i = 0; i + width <= data.size(); i += width) {
    char* at = data.data() + i;
    switch (elem) {
      case ort::kF32: store(at, static_cast<float>(next_value(state))); break;
      case ort::kF64: store(at, next_value(state)); break;
      case ort::kF16: store(at, to_f16(next_value(state))); break;
      case ort::kBf16:
        store(at, static_cast<uint16_t>(
                      std::bit_cast<uint32_t>(static_cast<float>(next_value(state))) >> 16));
        break;
      default: at[0] = 1;  // little-endian
    }
  }
}

double difference(const Runtime& runtime, const std::vector<OwnedValue>& got,
                  const std::vector<OwnedValue>& wanted) {
  double apart = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const TensorView a = view_of(runtime, got[i].get()), b = view_of(runtime, wanted[i].get());
    if (a.elem != b.elem || a.shape != b.shape) return kInfinity;
    const size_t count = b.bytes / width_of(b.elem);
    const auto compare = is_float(b.elem) ? &floats_apart : &integers_apart;
    apart = std::max(apart, compare(static_cast<const char*>(a.data),
                                    static_cast<const char*>(b.data), count, b.elem));
  }
  return apart;
}

}  // namespace tilewright::provider
