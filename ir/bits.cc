#include "ir/bits.h"

#include <bit>
#include <cmath>
#include <limits>

namespace tilewright {
namespace {

// A small binary float: sign, exponent, mantissa, from high to low.
struct SmallFloat {
  int exponent_bits, mantissa_bits;
  bool has_inf;  // the greatest exponent holds infinity and NaN, as in IEEE 754
  bool has_nan;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint64_t sign_bit() const { return uint64_t{1} << (exponent_bits + mantissa_bits); }
  uint64_t exponent_mask() const { return (uint64_t{1} << exponent_bits) - 1; }
  uint64_t mantissa_mask() const { return (uint64_t{1} << mantissa_bits) - 1; }
};

SmallFloat small_float_of(ElemType elem) {
  switch (elem) {
    case ElemType::f16: return {5, 10, true, true};
    case ElemType::bf16: return {8, 7, true, true};
    case ElemType::f8e4m3: return {4, 3, false, true};
    case ElemType::f8e5m2: return {5, 2, true, true};
    default: return {2, 1, false, false};  // f4e2m1
  }
}

uint64_t encode(SmallFloat f, double value) {
  uint64_t sign = std::signbit(value) ? f.sign_bit() : 0;
  if (std::isnan(value)) return (f.exponent_mask() << f.mantissa_bits) | f.mantissa_mask();
  if (std::isinf(value)) return sign | (f.exponent_mask() << f.mantissa_bits);
  double magnitude = std::abs(value);
  int least = 1 - f.bias();  // the exponent of subnormals
  int exponent = std::max(exponent_of(magnitude), least);
  auto units = static_cast<uint64_t>(magnitude * power_of_two(f.mantissa_bits - exponent));
  bool normal = units > f.mantissa_mask();
  uint64_t field = normal ? static_cast<uint64_t>(exponent + f.bias()) : 0;
  return sign | (field << f.mantissa_bits) | (units & f.mantissa_mask());
}

double decode(SmallFloat f, uint64_t bits) {
  double sign = bits & f.sign_bit() ? -1 : 1;
  uint64_t field = (bits >> f.mantissa_bits) & f.exponent_mask();
  uint64_t mantissa = bits & f.mantissa_mask();
  bool top = field == f.exponent_mask();
  if (top && f.has_inf) {
    return mantissa ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  }
  if (top && f.has_nan && mantissa == f.mantissa_mask()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  uint64_t units = field ? mantissa + f.mantissa_mask() + 1 : mantissa;
  int exponent = static_cast<int>(field ? field : 1) - f.bias();
  return sign * static_cast<double>(units) * power_of_two(exponent - f.mantissa_bits);
}

uint64_t nf4_code(double value) {
  int best = 0;
  for (int code = 1; code < 16; ++code) {
    if (std::abs(nf4_value(code) - value) < std::abs(nf4_value(best) - value)) best = code;
  }
  return static_cast<uint64_t>(best);
}

uint64_t mask_of(int bits) { return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }

uint64_t encode_integer(const ElemInfo& t, double value) {
  if (t.elem == ElemType::i1) return value > 0;
  if (t.kind == ElemKind::Bool) return value != 0;
  uint64_t bits;
  if (value < 0) {
    bits =
        value <= -0x1p63 ? uint64_t{1} << 63 : static_cast<uint64_t>(static_cast<int64_t>(value));
  } else {
    double limit = t.kind == ElemKind::UInt ? 0x1p64 : 0x1p63;
    bits =
        value >= limit ? mask_of(t.kind == ElemKind::UInt ? 64 : 63) : static_cast<uint64_t>(value);
  }
  return bits & mask_of(t.bits);
}

double decode_integer(const ElemInfo& t, uint64_t bits) {
  if (t.elem == ElemType::i1) return bits & 1 ? 1 : -1;
  if (t.kind == ElemKind::Bool) return bits & mask_of(t.bits) ? 1 : 0;
  if (t.kind == ElemKind::UInt) return static_cast<double>(bits & mask_of(t.bits));
  int shift = 64 - t.bits;
  return static_cast<double>(static_cast<int64_t>(bits << shift) >> shift);
}

}  // namespace

uint64_t to_bits(ElemType elem, double value) {
  const ElemInfo& t = info(elem);
  if (t.kind != ElemKind::Float) return encode_integer(t, value);
  switch (elem) {
    case ElemType::f64: return std::bit_cast<uint64_t>(value);
    case ElemType::f32: return std::bit_cast<uint32_t>(static_cast<float>(value));
    case ElemType::nf4: return nf4_code(value);
    case ElemType::e8m0:
      return std::isnan(value) ? 255 : static_cast<uint64_t>(std::ilogb(value) + 127);
    default: return encode(small_float_of(elem), value);
  }
}

double from_bits(ElemType elem, uint64_t bits) {
  const ElemInfo& t = info(elem);
  if (t.kind != ElemKind::Float) return decode_integer(t, bits);
  bits &= mask_of(t.bits);
  switch (elem) {
    case ElemType::f64: return std::bit_cast<double>(bits);
    case ElemType::f32: return std::bit_cast<float>(static_cast<uint32_t>(bits));
    case ElemType::nf4: return nf4_value(static_cast<int>(bits));
    case ElemType::e8m0:
      return bits == 255 ? std::numeric_limits<double>::quiet_NaN()
                         : std::ldexp(1.0, static_cast<int>(bits) - 127);
    default: return decode(small_float_of(elem), bits);
  }
}

}  // namespace tilewright
