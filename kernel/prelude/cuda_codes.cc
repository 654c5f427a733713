// Elements of a few bits in CUDA kernels, for a device and for emulation alike. The text has the
// dequantized values of single codes. It also makes packed 32-bit registers of elements for matrix
// instructions from the codes in a word.
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ir/type.h"
#include "kernel/prelude/cuda_prelude.h"

namespace tilewright {
namespace {

constexpr const char* kSingle = R"(
// The element at place `slot` of a byte, lowest bits first, as its code.
template <int BITS> TW_FN int tw_code(unsigned byte, int slot) {
  return (int)(byte >> slot * BITS & ((1u << BITS) - 1));
}
// Puts a code there; its neighbours stay.
template <int BITS> TW_FN void tw_put_code(unsigned char& byte, int slot, int code) {
  unsigned mask = ((1u << BITS) - 1) << slot * BITS;
  byte = (unsigned char)((byte & ~mask) | (unsigned)code << slot * BITS);
}
TW_FN int tw_i4(int code) { return (code ^ 8) - 8; }
TW_FN int tw_i2(int code) { return (code ^ 2) - 2; }
TW_FN int tw_i1(int code) { return code * 2 - 1; }
TW_FN float tw_f4e2m1(int code) {
  // The bits of the magnitude read as a float, times 2^126: subnormal numbers come out right, too.
  float magnitude = tw_float((unsigned)(code & 7) << 22) * tw_float(253u << 23);
  return tw_float(tw_bits(magnitude) | (unsigned)(code >> 3) << 31);
}
TW_FN float tw_e8m0(int code) {
  return tw_float(code == 255 ? 0x7fffffffu : code == 0 ? 0x00400000u : (unsigned)code << 23);
}
)";

// Functions that make all registers of elements. An integer code in the mantissa of a number whose
// units are 1 is that number plus the code. A subtraction removes the number and the zero point:
// exactly, as all of these are small integers. A code that stands `up` bits higher is so many
// powers of two too large, which the same instruction corrects. Codes that share a mantissa thus
// share a shift.
constexpr const char* kRegisterCodes = R"(
TW_FN unsigned tw_moved(unsigned x, int right) { return right < 0 ? x << -right : x >> right; }
TW_FN unsigned tw_less_f16x2(unsigned x, int up, float zero) {
  return tw_fma_f16x2(x, 0x3c003c00u - (unsigned)up * 0x04000400u, tw_twice_f16(-zero));
}
TW_FN unsigned tw_less_bf16x2(unsigned x, int up, float zero) {
  return tw_fma_bf16x2(x, 0x3f803f80u - (unsigned)up * 0x00800080u, tw_twice_bf16(-zero));
}
TW_FN unsigned tw_minus_f16x2(unsigned x, float zero) { return tw_less_f16x2(x, 0, zero); }
TW_FN unsigned tw_minus_bf16x2(unsigned x, float zero) { return tw_less_bf16x2(x, 0, zero); }
// Byte by byte, wrapping around.
TW_FN unsigned tw_minus_i8x4(unsigned x, int zero) {
  unsigned z = (unsigned)(zero & 255) * 0x01010101u;
  return ((x | 0x80808080u) - (z & 0x7f7f7f7fu)) ^ ((x ^ ~z) & 0x80808080u);
}
// Four bits by four bits.
TW_FN unsigned tw_minus_i4x8(unsigned x, int zero) {
  unsigned z = (unsigned)(zero & 15) * 0x11111111u;
  return ((x | 0x88888888u) - (z & 0x77777777u)) ^ ((x ^ ~z) & 0x88888888u);
}
// Signs and magnitudes of floats of 8 bits as the highest bits of 16-bit numbers, times a power of
// two. NaN stays one.
TW_FN unsigned tw_nan_f8e4m3(unsigned x) { return ((x & 0x007f007fu) + 0x00010001u) & 0x00800080u; }
TW_FN unsigned tw_f16x2_f8e4m3(unsigned word, int shift, float zero) {
#ifdef TW_FP8_CVT
  unsigned pair = __byte_perm(word, 0, 0x0020 + (unsigned)shift / 8 * 0x11);
  unsigned r = tw_cvt_f16x2_e4m3x2((unsigned short)pair);
#else
  unsigned x = word >> shift & 0x00ff00ffu, nan = tw_nan_f8e4m3(x);
  unsigned r = tw_fma_f16x2((x & 0x00800080u) << 8 | (x & 0x007f007fu) << 7, 0x5c005c00u, 0);
  r |= (nan << 8) - (nan << 2);
#endif
  return zero == 0 ? r : tw_minus_f16x2(r, zero);
}
TW_FN unsigned tw_bf16x2_f8e4m3(unsigned word, int shift, float zero) {
  unsigned x = word >> shift & 0x00ff00ffu, nan = tw_nan_f8e4m3(x);
  unsigned r = tw_fma_bf16x2((x & 0x00800080u) << 8 | (x & 0x007f007fu) << 4, 0x7b807b80u, 0);
  r |= (nan << 8) - (nan >> 1);
  return zero == 0 ? r : tw_minus_bf16x2(r, zero);
}
TW_FN unsigned tw_f16x2_f8e5m2(unsigned word, int shift, float zero) {
  unsigned r = (word >> shift & 0x00ff00ffu) << 8;
  return zero == 0 ? r : tw_minus_f16x2(r, zero);
}
TW_FN unsigned tw_f16x2_f4e2m1(unsigned word, int shift, float zero) {
  unsigned magnitude = tw_moved(word, shift - 9) & 0x0e000e00u;
  unsigned x = tw_and_xor(tw_moved(word, shift - 12), 0x80008000u, magnitude);
  unsigned r = tw_fma_f16x2(x, 0x74007400u, 0);
  return zero == 0 ? r : tw_minus_f16x2(r, zero);
}
TW_FN unsigned tw_bf16x2_f4e2m1(unsigned word, int shift, float zero) {
  unsigned magnitude = tw_moved(word, shift - 6) & 0x01c001c0u;
  unsigned x = tw_and_xor(tw_moved(word, shift - 12), 0x80008000u, magnitude);
  unsigned r = tw_fma_bf16x2(x, 0x7e807e80u, 0);
  return zero == 0 ? r : tw_minus_bf16x2(r, zero);
}
TW_FN unsigned tw_f16x2_i1(unsigned word, int shift, float zero) {
  unsigned r = tw_and_xor(tw_moved(word, shift - 15), 0x80008000u, 0xbc00bc00u);
  return zero == 0 ? r : tw_minus_f16x2(r, zero);
}
TW_FN unsigned tw_bf16x2_i1(unsigned word, int shift, float zero) {
  unsigned r = tw_and_xor(tw_moved(word, shift - 15), 0x80008000u, 0xbf80bf80u);
  return zero == 0 ? r : tw_minus_bf16x2(r, zero);
}
TW_FN unsigned tw_i8x4_i1(unsigned word, int shift, int zero) {
  unsigned r = ~((word >> shift & 0x01010101u) * 0xfeu);
  return zero == 0 ? r : tw_minus_i8x4(r, zero);
}
TW_FN unsigned tw_i4x8_i1(unsigned word, int shift, int zero) {
  unsigned r = ~((word >> shift & 0x11111111u) * 0xeu);
  return zero == 0 ? r : tw_minus_i4x8(r, zero);
}
)";

struct Integer {
  ElemType elem;
  int bits;
  bool is_signed;
};

constexpr Integer kIntegers[] = {{ElemType::u8, 8, false}, {ElemType::i8, 8, true},
                                 {ElemType::u4, 4, false}, {ElemType::i4, 4, true},
                                 {ElemType::u2, 2, false}, {ElemType::i2, 2, true},
                                 {ElemType::u1, 1, false}};

// Two 16-bit numbers with `mantissa` bits. Their units are 1 from 2^mantissa on, whose bits are
// `base`. Inverting the sign bit of a code adds half of its range.
std::string pair_function(const Integer& x, const char* to, uint32_t base, int mantissa) {
  const uint32_t mask = (1u << x.bits) - 1, flip = x.is_signed ? 1u << (x.bits - 1) : 0;
  const int together = mantissa / x.bits * x.bits;  // bits of the codes that share a shift
  return fmt::format(
      "TW_FN unsigned tw_{0}x2_{1}(unsigned word, int shift, float zero) {{\n"
      "  const int up = shift % {2};\n"
      "  unsigned r = tw_and_xor(word >> (shift - up), {3:#010x}u << up, {4:#010x}u ^ {5:#010x}u "
      "<< up);\n"
      "  return tw_less_{0}x2(r, up, zero + (float)(({6} >> up) + {7}));\n}}\n",
      to, to_string(x.elem), together, mask * 0x10001u, base * 0x10001u, flip * 0x10001u,
      1 << mantissa, flip);
}

// bf16 has too few mantissa bits for this trick on bytes; f32 has enough.
std::string bytes_as_bf16(const Integer& x) {
  int flip = x.is_signed ? 128 : 0;
  return fmt::format(
      "TW_FN unsigned tw_bf16x2_{0}(unsigned word, int shift, float zero) {{\n"
      "  unsigned x = (word >> shift & 0x00ff00ffu) ^ {1:#010x}u;\n"
      "  float low = tw_float(0x4b000000u | (x & 255)) - {2}.0f;\n"
      "  float high = tw_float(0x4b000000u | x >> 16) - {2}.0f;\n"
      "  return tw_pack(tw_bf16(low - zero), tw_bf16(high - zero));\n}}\n",
      to_string(x.elem), flip * 0x10001u, (1 << 23) + flip);
}

// Integers of `width` bits, as many as a word holds. Inverting a code's sign bit adds half of its
// range, which is then subtracted. A bit above each of them stops its borrow.
std::string integers_function(const Integer& x, int width) {
  const uint32_t each = 0xffffffffu / ((1u << width) - 1);  // a one in the lowest bit of each
  const uint32_t mask = (1u << x.bits) - 1, sign = 1u << (x.bits - 1), top = 1u << (width - 1);
  std::string value = fmt::format("word >> shift & {:#010x}u", mask * each);
  if (x.is_signed && x.bits < width) {
    value = fmt::format("(tw_and_xor(word >> shift, {:#010x}u, {:#010x}u) - {:#010x}u) ^ {:#010x}u",
                        mask * each, (sign | top) * each, sign * each, top * each);
  }
  return fmt::format(
      "TW_FN unsigned tw_i{0}x{1}_{2}(unsigned word, int shift, int zero) {{\n"
      "  unsigned r = {3};\n"
      "  return zero == 0 ? r : tw_minus_i{0}x{1}(r, zero);\n}}\n",
      width, 32 / width, to_string(x.elem), value);
}

// Selects one of 16 constants.
std::string table_function() {
  std::vector<std::string> items;
  for (int code = 0; code < 16; ++code) {
    items.push_back(fmt::format("{:.9e}f", static_cast<float>(nf4_value(code))));
  }
  for (int bit = 1; bit < 16; bit *= 2) {
    std::vector<std::string> next;
    for (size_t i = 0; i < items.size(); i += 2) {
      next.push_back(fmt::format("(code & {} ? {} : {})", bit, items[i + 1], items[i]));
    }
    items = next;
  }
  return fmt::format("TW_FN float tw_nf4(int code) {{\n  return {};\n}}\n", items[0]);
}

// Each of 16 lanes holds the dequantized value of one code. A code finds its value by an exchange
// of registers, which is quicker than a choice among constants.
constexpr const char* kTable = R"(
TW_FN unsigned tw_{0}_halves_nf4() {{
  float x = tw_nf4((int)threadIdx.x & 15);
  tw_{0} high(x);
  return tw_pack(high, tw_{0}(x - (float)high));
}}
TW_FN unsigned tw_{0}x2_nf4_high(unsigned word, int shift) {{
  unsigned mine = tw_{0}_halves_nf4();
  return (tw_lookup(mine, word >> shift) & 0xffffu) | tw_lookup(mine, word >> (shift + 16)) << 16;
}}
TW_FN unsigned tw_{0}x2_nf4_low(unsigned word, int shift) {{
  unsigned mine = tw_{0}_halves_nf4();
  return tw_lookup(mine, word >> shift) >> 16 |
         (tw_lookup(mine, word >> (shift + 16)) & 0xffff0000u);
}}
TW_FN unsigned tw_{0}x2_nf4(unsigned word, int shift, float zero) {{
  unsigned r = tw_{0}x2_nf4_high(word, shift);
  return zero == 0 ? r : tw_minus_{0}x2(r, zero);
}}
)";

std::string make_codes() {
  std::string text = kSingle + table_function() + kRegisterCodes;
  for (const Integer& x : kIntegers) {
    text += pair_function(x, "f16", 0x6400, 10);
    text += x.bits == 8 ? bytes_as_bf16(x) : pair_function(x, "bf16", 0x4300, 7);
    text += integers_function(x, 8);
    if (x.bits < 4) text += integers_function(x, 4);
  }
  return text;
}

}  // namespace

std::string_view cuda_codes() {
  static const std::string text = make_codes();
  return text;
}

std::string_view cuda_tables() {
  static const std::string text =
      fmt::format(fmt::runtime(kTable), "f16") + fmt::format(fmt::runtime(kTable), "bf16");
  return text;
}

bool has_code_halves(ElemType from, ElemType to) {
  return is_in_cuda_table(from) && (to == ElemType::f16 || to == ElemType::bf16);
}

bool is_in_cuda_table(ElemType codes) { return codes == ElemType::nf4; }

bool has_code_registers(ElemType from, ElemType to) {
  if (is_in_cuda_table(from)) return has_code_halves(from, to);
  std::string name = fmt::format(" tw_{}x{}_{}(", to_string(to), 32 / bits_of(to), to_string(from));
  return cuda_codes().find(name) != std::string_view::npos;
}

}  // namespace tilewright
