#include "runtime/element.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace tilewright {
namespace {

// A binary float format: sign, exponent, mantissa. `inf`: the highest exponent holds infinities and
// NaNs (e4m3 keeps only one NaN there, and f4e2m1 nothing).
struct FloatLayout {
  int exponent_bits;
  int mantissa_bits;
  bool has_inf;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int total() const { return 1 + exponent_bits + mantissa_bits; }
};

FloatLayout layout_of(ElemType elem) {
  switch (elem) {
    case ElemType::f16:
      return {5, 10, true};
    case ElemType::bf16:
      return {8, 7, true};
    case ElemType::f8e4m3:
      return {4, 3, false};
    case ElemType::f8e5m2:
      return {5, 2, true};
    default:
      return {2, 1, false};  // f4e2m1
  }
}

// The value is one that the format can hold.
uint64_t encode_float(ElemType elem, double value) {
  FloatLayout f = layout_of(elem);
  uint64_t sign = std::signbit(value) ? uint64_t{1} << (f.total() - 1) : 0;
  uint64_t top = ((uint64_t{1} << f.exponent_bits) - 1) << f.mantissa_bits;
  if (std::isnan(value)) {
    if (elem == ElemType::f8e4m3) return sign | 0x7f;
    if (elem == ElemType::f4e2m1) return sign | 7;  // has no NaN: the largest stands in
    return sign | top | uint64_t{1} << (f.mantissa_bits - 1);
  }
  if (std::isinf(value)) return sign | top;
  if (value == 0) return sign;
  int exponent = std::max(std::ilogb(value), 1 - f.bias());
  auto mantissa = static_cast<uint64_t>(std::ldexp(std::abs(value), f.mantissa_bits - exponent));
  uint64_t hidden = uint64_t{1} << f.mantissa_bits;
  if (mantissa < hidden) return sign | mantissa;  // subnormal
  return sign | static_cast<uint64_t>(exponent + f.bias()) << f.mantissa_bits | (mantissa - hidden);
}

double decode_float(ElemType elem, uint64_t bits) {
  FloatLayout f = layout_of(elem);
  bool negative = bits >> (f.total() - 1) & 1;
  uint64_t mantissa = bits & ((uint64_t{1} << f.mantissa_bits) - 1);
  int exponent = static_cast<int>(bits >> f.mantissa_bits & ((1u << f.exponent_bits) - 1));
  double magnitude;
  if (f.has_inf && exponent == (1 << f.exponent_bits) - 1) {
    magnitude = mantissa ? std::numeric_limits<double>::quiet_NaN()
                         : std::numeric_limits<double>::infinity();
  } else if (elem == ElemType::f8e4m3 && (bits & 0x7f) == 0x7f) {
    magnitude = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<double>(mantissa), 1 - f.bias() - f.mantissa_bits);
  } else {
    magnitude = std::ldexp(static_cast<double>(mantissa + (uint64_t{1} << f.mantissa_bits)),
                           exponent - f.bias() - f.mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

// The 16 values of nf4 in the order of their codes, which is ascending (QLoRA, appendix E).
constexpr std::array<double, 16> kNf4 = {-1.0,
                                         -0.6961928009986877,
                                         -0.5250730514526367,
                                         -0.39491748809814453,
                                         -0.28444138169288635,
                                         -0.18477343022823334,
                                         -0.09105003625154495,
                                         0.0,
                                         0.07958029955625534,
                                         0.16093020141124725,
                                         0.24611230194568634,
                                         0.33791524171829224,
                                         0.44070982933044434,
                                         0.5626170039176941,
                                         0.7229568362236023,
                                         1.0};

uint64_t encode_integer(const ElemInfo& t, double rounded) {
  if (t.elem == ElemType::i1) return rounded < 0 ? 0 : 1;
  if (t.kind == ElemKind::UInt) {
    return rounded >= 0x1p64 ? ~uint64_t{0} : static_cast<uint64_t>(rounded);
  }
  if (rounded >= 0x1p63) return static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return static_cast<uint64_t>(static_cast<int64_t>(rounded));
}

double decode_integer(const ElemInfo& t, uint64_t bits) {
  if (t.elem == ElemType::i1) return bits & 1 ? 1 : -1;
  if (t.kind == ElemKind::UInt) return static_cast<double>(bits);
  int unused = 64 - t.bits;
  return static_cast<double>(static_cast<int64_t>(bits << unused) >> unused);
}

}  // namespace

uint64_t encode_element(ElemType elem, double value) {
  const ElemInfo& t = info(elem);
  double rounded = round_to(elem, value);
  uint64_t bits = 0;
  switch (t.kind) {
    case ElemKind::Bool:
      return rounded != 0;
    case ElemKind::Int:
    case ElemKind::UInt:
    case ElemKind::Index:
      bits = encode_integer(t, rounded);
      break;
    case ElemKind::Float:
      if (elem == ElemType::f64) return std::bit_cast<uint64_t>(rounded);
      if (elem == ElemType::f32) return std::bit_cast<uint32_t>(static_cast<float>(rounded));
      if (elem == ElemType::e8m0) return static_cast<uint64_t>(std::ilogb(rounded) + 127);
      if (elem == ElemType::nf4) {
        return static_cast<uint64_t>(std::find(kNf4.begin(), kNf4.end(), rounded) - kNf4.begin());
      }
      bits = encode_float(elem, rounded);
      break;
  }
  return t.bits == 64 ? bits : bits & ((uint64_t{1} << t.bits) - 1);
}

double decode_element(ElemType elem, uint64_t bits) {
  const ElemInfo& t = info(elem);
  switch (t.kind) {
    case ElemKind::Bool:
      return bits != 0;
    case ElemKind::Int:
    case ElemKind::UInt:
    case ElemKind::Index:
      return decode_integer(t, bits);
    case ElemKind::Float:
      break;
  }
  if (elem == ElemType::f64) return std::bit_cast<double>(bits);
  if (elem == ElemType::f32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (elem == ElemType::nf4) return kNf4[bits & 15];
  if (elem == ElemType::e8m0) {
    if (bits == 255) return std::numeric_limits<double>::quiet_NaN();
    return std::ldexp(1.0, static_cast<int>(bits) - 127);
  }
  return decode_float(elem, bits);
}

double load_element(ElemType elem, const void* base, int64_t index) {
  const int bits = bits_of(elem);
  const auto* bytes = static_cast<const unsigned char*>(base);
  if (bits < 8) {
    int64_t bit = index * bits;
    return decode_element(elem, (bytes[bit / 8] >> (bit % 8)) & ((1u << bits) - 1));
  }
  uint64_t raw = 0;
  std::memcpy(&raw, bytes + index * (bits / 8), bits / 8);
  return decode_element(elem, raw);
}

void store_element(ElemType elem, void* base, int64_t index, double value) {
  const int bits = bits_of(elem);
  auto* bytes = static_cast<unsigned char*>(base);
  uint64_t raw = encode_element(elem, value);
  if (bits < 8) {
    int64_t bit = index * bits;
    unsigned mask = ((1u << bits) - 1) << (bit % 8);
    unsigned char& byte = bytes[bit / 8];
    byte = static_cast<unsigned char>((byte & ~mask) | (static_cast<unsigned>(raw) << (bit % 8)));
    return;
  }
  std::memcpy(bytes + index * (bits / 8), &raw, bits / 8);
}

double unit_roundoff(ElemType elem) {
  switch (elem) {
    case ElemType::f64:
      return 0x1p-53;
    case ElemType::f32:
      return 0x1p-24;
    case ElemType::nf4:
      return 0.08;  // half the widest gap between its values, at -1 and at +1
    case ElemType::e8m0:
      return 0.5;
    default:
      break;
  }
  return is_float(elem) ? std::ldexp(1.0, -1 - layout_of(elem).mantissa_bits) : 0.0;
}

double ulp_at(ElemType elem, double value) {
  if (!is_float(elem)) return 1;
  double magnitude = std::abs(value);
  if (std::isnan(magnitude) || std::isinf(magnitude)) return 0;
  if (elem == ElemType::nf4) return 2 * unit_roundoff(elem);
  if (elem == ElemType::e8m0) return magnitude;
  int mantissa = elem == ElemType::f64   ? 52
                 : elem == ElemType::f32 ? 23
                                         : layout_of(elem).mantissa_bits;
  int lowest = elem == ElemType::f64   ? -1022
               : elem == ElemType::f32 ? -126
                                       : 1 - layout_of(elem).bias();
  int exponent = magnitude == 0 ? lowest : std::max(std::ilogb(magnitude), lowest);
  return std::ldexp(1.0, exponent - mantissa);
}

double max_finite(ElemType elem) {
  switch (elem) {
    case ElemType::f64:
      return std::numeric_limits<double>::max();
    case ElemType::f32:
      return std::numeric_limits<float>::max();
    case ElemType::f16:
      return 65504;
    case ElemType::bf16:
      return decode_float(elem, 0x7f7f);
    case ElemType::f8e4m3:
      return 448;
    case ElemType::f8e5m2:
      return 57344;
    case ElemType::f4e2m1:
      return 6;
    case ElemType::nf4:
      return 1;
    case ElemType::e8m0:
      return 0x1p127;
    default:
      break;
  }
  const ElemInfo& t = info(elem);
  if (t.kind == ElemKind::Bool || t.elem == ElemType::i1) return 1;
  return std::ldexp(1.0, t.kind == ElemKind::UInt ? t.bits : t.bits - 1) - 1;
}

}  // namespace tilewright
