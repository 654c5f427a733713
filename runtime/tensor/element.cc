#include "runtime/tensor/element.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <vector>

#include "ir/bits.h"

namespace tilewright {
namespace {

// Bits of the mantissa that are stored, and the exponent of the smallest normal number.
struct Precision {
  int mantissa_bits;
  int min_exponent;
};

Precision precision_of(ElemType elem) {
  switch (elem) {
    case ElemType::f64: return {52, -1022};
    case ElemType::f32: return {23, -126};
    case ElemType::f16: return {10, -14};
    case ElemType::bf16: return {7, -126};
    case ElemType::f8e4m3: return {3, -6};
    case ElemType::f8e5m2: return {2, -14};
    default: return {1, 0};  // f4e2m1
  }
}

// The values of all codes of a type of up to 16 bits. Safe from several threads.
const double* values_of_codes(ElemType elem) {
  static std::array<std::once_flag, 256> made;
  static std::array<std::vector<double>, 256> tables;
  const auto number = static_cast<size_t>(elem);
  std::call_once(made[number], [&] {
    std::vector<double>& values = tables[number];
    values.resize(size_t{1} << bits_of(elem));
    for (size_t code = 0; code < values.size(); ++code) values[code] = from_bits(elem, code);
  });
  return tables[number].data();
}

template <class T>
void widen(const void* base, int64_t first, std::span<double> out) {
  const auto* from = static_cast<const unsigned char*>(base) + first * int64_t{sizeof(T)};
  for (double& value : out) {
    T element;
    std::memcpy(&element, from, sizeof element);
    value = static_cast<double>(element);
    from += sizeof element;
  }
}

// Codes of T, by the table of their values.
template <class T>
void look_up(ElemType elem, const void* base, int64_t first, std::span<double> out) {
  const double* values = values_of_codes(elem);
  const auto* from = static_cast<const unsigned char*>(base) + first * int64_t{sizeof(T)};
  for (double& value : out) {
    T code;
    std::memcpy(&code, from, sizeof code);
    value = values[code];
    from += sizeof code;
  }
}

// Codes of less than a byte.
template <int kBits>
void look_up_bits(ElemType elem, const void* base, int64_t first, std::span<double> out) {
  constexpr uint64_t kOfByte = 8 / kBits;
  const double* values = values_of_codes(elem);
  const auto* bytes = static_cast<const unsigned char*>(base);
  auto at = static_cast<uint64_t>(first);
  for (double& value : out) {
    value = values[bytes[at / kOfByte] >> (at % kOfByte * kBits) & ((1u << kBits) - 1)];
    ++at;
  }
}

}  // namespace

uint64_t encode_element(ElemType elem, double value) {
  return to_bits(elem, round_to(elem, value));
}

double decode_element(ElemType elem, uint64_t bits) { return from_bits(elem, bits); }

double load_element(ElemType elem, const void* base, int64_t index) {
  const int bits = bits_of(elem);
  const auto* bytes = static_cast<const unsigned char*>(base);
  if (bits < 8) {
    int64_t bit = index * bits;
    return values_of_codes(elem)[(bytes[bit / 8] >> (bit % 8)) & ((1u << bits) - 1)];
  }
  if (bits == 8) return values_of_codes(elem)[bytes[index]];
  uint64_t raw = 0;
  std::memcpy(&raw, bytes + index * (bits / 8), bits / 8);
  return decode_element(elem, raw);
}

void load_elements(ElemType elem, const void* base, int64_t first, std::span<double> out) {
  switch (elem) {
    case ElemType::f64: return widen<double>(base, first, out);
    case ElemType::f32: return widen<float>(base, first, out);
    case ElemType::i32: return widen<int32_t>(base, first, out);
    case ElemType::bf16: {
      const auto* from = static_cast<const unsigned char*>(base) + first * 2;
      for (double& value : out) {
        uint16_t half;
        std::memcpy(&half, from, sizeof half);
        value = std::bit_cast<float>(uint32_t{half} << 16);
        from += sizeof half;
      }
      return;
    }
    default: break;
  }
  const int bits = bits_of(elem);
  if (bits == 1) return look_up_bits<1>(elem, base, first, out);
  if (bits == 2) return look_up_bits<2>(elem, base, first, out);
  if (bits == 4) return look_up_bits<4>(elem, base, first, out);
  if (bits == 8) return look_up<uint8_t>(elem, base, first, out);
  if (bits == 16) return look_up<uint16_t>(elem, base, first, out);
  for (double& value : out) value = load_element(elem, base, first++);
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

double ulp_at(ElemType elem, double value) {
  if (!is_float(elem)) return 1;
  double magnitude = std::abs(value);
  if (std::isnan(magnitude) || std::isinf(magnitude)) return 0;
  if (elem == ElemType::nf4) return 0.32;  // its widest gap, above -1
  if (elem == ElemType::e8m0) return magnitude;
  Precision p = precision_of(elem);
  int exponent = magnitude == 0 ? p.min_exponent : std::max(std::ilogb(magnitude), p.min_exponent);
  return std::ldexp(1.0, exponent - p.mantissa_bits);
}

double max_finite(ElemType elem) {
  switch (elem) {
    case ElemType::f64: return std::numeric_limits<double>::max();
    case ElemType::f32: return std::numeric_limits<float>::max();
    case ElemType::f16: return 65504;
    case ElemType::bf16: return from_bits(elem, 0x7f7f);
    case ElemType::f8e4m3: return 448;
    case ElemType::f8e5m2: return 57344;
    case ElemType::f4e2m1: return 6;
    case ElemType::nf4: return 1;
    case ElemType::e8m0: return 0x1p127;
    default: break;
  }
  const ElemInfo& t = info(elem);
  if (t.kind == ElemKind::Bool || t.elem == ElemType::i1) return 1;
  return std::ldexp(1.0, t.kind == ElemKind::UInt ? t.bits : t.bits - 1) - 1;
}

}  // namespace tilewright
