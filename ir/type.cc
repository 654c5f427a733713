#include "ir/type.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ir/bits.h"

namespace tilewright {
namespace {

constexpr std::array<ElemInfo, 25> kTable = {{
    {ElemType::f64, "f64", ElemKind::Float, 64},
    {ElemType::f32, "f32", ElemKind::Float, 32},
    {ElemType::f16, "f16", ElemKind::Float, 16},
    {ElemType::bf16, "bf16", ElemKind::Float, 16},
    {ElemType::f8e4m3, "f8e4m3", ElemKind::Float, 8},
    {ElemType::f8e5m2, "f8e5m2", ElemKind::Float, 8},
    {ElemType::f4e2m1, "f4e2m1", ElemKind::Float, 4},
    {ElemType::nf4, "nf4", ElemKind::Float, 4},
    {ElemType::e8m0, "e8m0", ElemKind::Float, 8},
    {ElemType::i64, "i64", ElemKind::Int, 64},
    {ElemType::i32, "i32", ElemKind::Int, 32},
    {ElemType::i16, "i16", ElemKind::Int, 16},
    {ElemType::i8, "i8", ElemKind::Int, 8},
    {ElemType::i4, "i4", ElemKind::Int, 4},
    {ElemType::i2, "i2", ElemKind::Int, 2},
    {ElemType::i1, "i1", ElemKind::Int, 1},
    {ElemType::u64, "u64", ElemKind::UInt, 64},
    {ElemType::u32, "u32", ElemKind::UInt, 32},
    {ElemType::u16, "u16", ElemKind::UInt, 16},
    {ElemType::u8, "u8", ElemKind::UInt, 8},
    {ElemType::u4, "u4", ElemKind::UInt, 4},
    {ElemType::u2, "u2", ElemKind::UInt, 2},
    {ElemType::u1, "u1", ElemKind::UInt, 1},
    {ElemType::boolean, "bool", ElemKind::Bool, 8},
    {ElemType::index, "index", ElemKind::Index, 64},
}};

// A binary float format with an implicit leading bit and gradual underflow.
struct FloatFormat {
  int mantissa_bits;
  int min_exponent;  // exponent of the smallest normal number
  double max_finite;
  bool saturates;  // else an overflow gives infinity
};

FloatFormat float_format_of(ElemType elem) {
  switch (elem) {
    case ElemType::f32: return {23, -126, std::numeric_limits<float>::max(), false};
    case ElemType::f16: return {10, -14, 65504.0, false};
    case ElemType::bf16: return {7, -126, 3.3895313892515355e38, false};
    case ElemType::f8e4m3: return {3, -6, 448.0, true};
    case ElemType::f8e5m2: return {2, -14, 57344.0, true};
    default: return {1, 0, 6.0, true};  // f4e2m1
  }
}

double round_float(FloatFormat f, double value) {
  if (std::isnan(value) || std::isinf(value) || value == 0) {
    return std::isinf(value) && f.saturates ? std::copysign(f.max_finite, value) : value;
  }
  int exponent = std::max(exponent_of(value), f.min_exponent);
  double ulp = power_of_two(exponent - f.mantissa_bits);
  double rounded = std::nearbyint(value / ulp) * ulp;  // ties to even in the default mode
  if (std::abs(rounded) > f.max_finite) {
    return std::copysign(f.saturates ? f.max_finite : std::numeric_limits<double>::infinity(),
                         value);
  }
  return rounded;
}

// The quantiles of a normal distribution that NF4 stores (QLoRA, appendix E).
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

double nearest_nf4(double value) {
  return *std::min_element(kNf4.begin(), kNf4.end(), [&](double a, double b) {
    return std::abs(a - value) < std::abs(b - value);
  });
}

double round_e8m0(double value) {
  if (!(value > 0)) return std::ldexp(1.0, -127);
  double exponent = std::clamp(std::nearbyint(std::log2(value)), -127.0, 127.0);
  return std::ldexp(1.0, static_cast<int>(exponent));
}

double wrap_integer(const ElemInfo& t, double value) {
  if (std::isnan(value)) return 0;
  double truncated = std::trunc(value);
  if (t.elem == ElemType::i1) return truncated < 0 ? -1 : 1;
  if (t.bits == 64) {
    double limit = t.kind == ElemKind::UInt ? 0x1p64 : 0x1p63;
    return std::clamp(truncated, t.kind == ElemKind::UInt ? 0.0 : -limit, limit);
  }
  double modulus = std::ldexp(1.0, t.bits);
  double wrapped = truncated - std::floor(truncated / modulus) * modulus;
  bool negative = t.kind == ElemKind::Int && wrapped >= modulus / 2;
  return negative ? wrapped - modulus : wrapped;
}

}  // namespace

const ElemInfo& info(ElemType elem) { return kTable[static_cast<size_t>(elem)]; }

std::optional<ElemType> parse_elem_type(std::string_view name) {
  for (const ElemInfo& t : kTable) {
    if (t.name == name) return t.elem;
  }
  return std::nullopt;
}

std::string elem_type_names() {
  std::string names;
  for (const ElemInfo& t : kTable) {
    if (!names.empty()) names += ", ";
    names += t.name;
  }
  return names;
}

bool is_integer(ElemType e) {
  ElemKind k = info(e).kind;
  return k == ElemKind::Int || k == ElemKind::UInt || k == ElemKind::Index;
}

double nf4_value(int code) { return kNf4.at(static_cast<size_t>(code)); }

int64_t bytes_for(ElemType e, int64_t count) { return (count * bits_of(e) + 7) / 8; }

std::string to_string(Type type) {
  std::string name(info(type.elem).name);
  return type.lanes == 1 ? name : name + "x" + std::to_string(type.lanes);
}

double round_to(ElemType elem, double value) {
  const ElemInfo& t = info(elem);
  switch (t.kind) {
    case ElemKind::Bool: return value != 0 ? 1 : 0;
    case ElemKind::Int:
    case ElemKind::UInt:
    case ElemKind::Index: return wrap_integer(t, value);
    case ElemKind::Float: break;
  }
  if (elem == ElemType::f64) return value;
  if (elem == ElemType::f32) return static_cast<float>(value);
  if (elem == ElemType::nf4) return nearest_nf4(value);
  if (elem == ElemType::e8m0) return round_e8m0(value);
  return round_float(float_format_of(elem), value);
}

}  // namespace tilewright
