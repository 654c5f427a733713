// The types of elements and vectors in CUDA kernels, for a device and for emulation alike.
#include "kernel/prelude/cuda_prelude.h"

namespace tilewright {
namespace {

constexpr std::string_view kTypes = R"(
template <class T, int N>
struct alignas(sizeof(T) * N) tw_vec {
  T lane[N];
  TW_FN T& operator[](int i) { return lane[i]; }
  TW_FN const T& operator[](int i) const { return lane[i]; }
};

// Numbers from which the stored types are made; what merely converts to one is none.
template <class T> struct tw_number { static const bool value = false; };
template <> struct tw_number<float> { static const bool value = true; };
template <> struct tw_number<double> { static const bool value = true; };
template <> struct tw_number<int> { static const bool value = true; };
template <> struct tw_number<unsigned> { static const bool value = true; };
template <> struct tw_number<long long> { static const bool value = true; };
template <bool B> struct tw_if {};
template <> struct tw_if<true> { typedef int type; };

// x in a format of e exponent and m mantissa bits with the sign above, rounded to nearest even. What
// is greater than the greatest becomes that (`top` is its code); NaN becomes `nan`.
TW_FN unsigned tw_narrow(float x, int e, int m, unsigned top, unsigned nan) {
  unsigned bits = tw_bits(x), sign = bits >> 31 << (e + m), rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return nan;
  int bias = (1 << (e - 1)) - 1, drop = 23 - m;
  int exponent = (int)(rest >> 23) - 127 + bias;
  unsigned long long value = rest;
  if (exponent < 1) {  // a subnormal result: the leading bit is written out and shifted in
    int shift = 1 - exponent;
    if (shift > 24) shift = 24;
    drop += shift;
    value = (rest & 0x7fffffu) | (rest >> 23 ? 0x800000u : 0u);
  } else {
    value = rest - ((unsigned)(127 - bias) << 23);
  }
  unsigned long long kept = value >> drop, lost = value & ((1ull << drop) - 1);
  unsigned long long half = 1ull << (drop - 1);
  kept += lost > half || (lost == half && (kept & 1));
  return sign | (kept > top ? top : (unsigned)kept);
}
// The value of a code of such a format, whose greatest exponent is one like any other.
TW_FN float tw_widen(unsigned code, int e, int m) {
  unsigned rest = code & ((1u << (e + m)) - 1), sign = code >> (e + m) << 31;
  // 2^(127 - bias) more than the code's bits read as a float; the product makes subnormals, too.
  float scale = tw_float((unsigned)(127 + 128 - (1 << (e - 1))) << 23);
  return tw_float(tw_bits(tw_float(rest << (23 - m)) * scale) | sign);
}

struct alignas(2) tw_f16 {
  unsigned short bits;
  tw_f16() = default;
  template <class T, typename tw_if<tw_number<T>::value>::type = 0>
  TW_FN tw_f16(T x) : bits(tw_f16_bits((float)x)) {}
  TW_FN operator float() const { return tw_f16_value(bits); }
};

struct alignas(2) tw_bf16 {
  unsigned short bits;
  tw_bf16() = default;
  template <class T, typename tw_if<tw_number<T>::value>::type = 0>
  TW_FN tw_bf16(T x) : bits(tw_bf16_bits((float)x)) {}
  TW_FN operator float() const { return tw_float((unsigned)bits << 16); }
};

// Of the format's own: no infinity, 448 at most.
struct tw_e4m3 {
  unsigned char bits;
  tw_e4m3() = default;
  template <class T, typename tw_if<tw_number<T>::value>::type = 0>
  TW_FN tw_e4m3(T x) {
#ifdef TW_FP8_CVT
    bits = (unsigned char)tw_cvt_e4m3x2(0.0f, (float)x);
#else
    bits = (unsigned char)tw_narrow((float)x, 4, 3, 0x7e, 0x7f);
#endif
  }
  TW_FN operator float() const {
#ifdef TW_FP8_CVT
    return tw_f16_value((unsigned short)tw_cvt_f16x2_e4m3x2(bits));
#else
    return (bits & 0x7f) == 0x7f ? tw_float(0x7fffffffu) : tw_widen(bits, 4, 3);
#endif
  }
};

// As IEEE 754 would have it, but what overflows becomes 57344.
struct tw_e5m2 {
  unsigned char bits;
  tw_e5m2() = default;
  template <class T, typename tw_if<tw_number<T>::value>::type = 0>
  TW_FN tw_e5m2(T x) {
#ifdef TW_FP8_CVT
    bits = (unsigned char)tw_cvt_e5m2x2(0.0f, (float)x);
#else
    bits = (unsigned char)tw_narrow((float)x, 5, 2, 0x7b, 0x7f);
#endif
  }
  TW_FN operator float() const {
    // The upper half of an f16.
    return tw_f16_value((unsigned short)(bits << 8));
  }
};

// Rounded to the 19 bits that matrix instructions look at, ties away from zero.
TW_FN unsigned tw_tf32(float x) {
  unsigned u = tw_bits(x);
  return (u & 0x7f800000u) == 0x7f800000u ? u : (u + 0x1000u) & 0xffffe000u;
}

// The bits from BASE on are those of i, each exclusive or with the one SHIFT places above: the same
// place of neighbouring rows lies in different banks.
template <int BITS, int BASE, int SHIFT> TW_FN int tw_swizzle(int i) {
  return i ^ (i >> SHIFT & ((1 << BITS) - 1) << BASE);
}

TW_FN unsigned tw_pack(tw_f16 lo, tw_f16 hi) { return lo.bits | (unsigned)hi.bits << 16; }
TW_FN unsigned tw_pack(tw_bf16 lo, tw_bf16 hi) { return lo.bits | (unsigned)hi.bits << 16; }
)";

}  // namespace

std::string_view cuda_types() { return kTypes; }

}  // namespace tilewright
