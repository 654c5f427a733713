#include "codegen/c/c_narrow.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "codegen/c/c_packed.h"

namespace tilewright {
namespace {

// One element -----------------------------------------------------------------------------------

constexpr const char* kFloatBits = R"(static inline uint32_t tw_bits(float x) {
  uint32_t u; __builtin_memcpy(&u, &x, 4); return u;
}
static inline float tw_float(uint32_t u) { float x; __builtin_memcpy(&x, &u, 4); return x; }
)";
constexpr const char* kFromBf16 = R"(static inline float {name}(uint16_t h) {
  return tw_float((uint32_t)h << 16);
}
)";
constexpr const char* kToBf16 = R"(static inline uint16_t {name}(float x) {
  uint32_t u = tw_bits(x);
  if (x != x) return (uint16_t)((u >> 16) | 0x40);
  return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
)";
constexpr const char* kFromF16 = R"(static inline float {name}(_Float16 h) { return (float)h; }
)";
constexpr const char* kToF16 = R"(static inline _Float16 {name}(float x) { return (_Float16)x; }
)";
// 8-bit floats: {MB} mantissa bits, exponent bias {BIAS}; e4m3 has no infinity.
constexpr const char* kFromF8 = R"(static inline float {name}(uint8_t h) {
  int e = (h & 0x7f) >> {MB}, m = h & ((1 << {MB}) - 1);
  if ({SPECIAL}) return tw_float({SPECIALBITS} | (uint32_t)(h & 0x80) << 24);
  float x = e ? tw_float((uint32_t)(e - {BIAS} + 127) << 23 | (uint32_t)m << (23 - {MB}))
              : (float)m * {SUBNORMAL};
  return h & 0x80 ? -x : x;
}
)";
constexpr const char* kToF8 = R"(static inline uint8_t {name}(float x) {
  uint8_t sign = (uint8_t)(tw_bits(x) >> 24 & 0x80);
  if (x != x) return sign | 0x7f;
  float a = x < 0 ? -x : x;
  if (a >= {MAX}) return sign | {MAXBITS};
  if (a < {MINNORMAL}) return sign | (uint8_t)__builtin_rintf(a / {SUBNORMAL});
  uint32_t u = tw_bits(a);
  u += (1u << (22 - {MB})) - 1 + ((u >> (23 - {MB})) & 1);
  uint8_t r = (uint8_t)((u >> (23 - {MB})) - ((127 - {BIAS}) << {MB}));
  return sign | (r > {MAXBITS} ? {MAXBITS} : r);
}
)";
// Powers of two; the code 0 is 2^-127, a subnormal float.
constexpr const char* kFromE8m0 = R"(static inline float {name}(uint8_t h) {
  return tw_float(h == 255 ? 0x7fc00000u : h ? (uint32_t)h << 23 : 0x00400000u);
}
)";
constexpr const char* kToE8m0 = R"(static inline uint8_t {name}(float x) {
  if (x != x) return 255;
  if (!(x > 0)) return 0;
  double e = __builtin_rint(__builtin_log2((double)x));
  return (uint8_t)((e < -127 ? -127 : e > 127 ? 127 : e) + 127);
}
)";
constexpr const char* kFromTable = R"(static const float {name}_table[16] = {{table}};
static inline float {name}(uint8_t h) { return {name}_table[h]; }
)";
constexpr const char* kToNf4 = R"(static inline uint8_t {name}(float x) {
  static const float t[16] = {{table}};
  int best = 0;
  for (int i = 1; i < 16; ++i) {
    if (__builtin_fabs((double)t[i] - x) < __builtin_fabs((double)t[best] - x)) best = i;
  }
  return (uint8_t)best;
}
)";
// Each comparison is with the midpoint of two values; ties go to the even code.
constexpr const char* kToF4e2m1 = R"(static inline uint8_t {name}(float x) {
  uint8_t sign = (uint8_t)(tw_bits(x) >> 28 & 8);
  if (x != x) return 7;
  float a = x < 0 ? -x : x;
  int c = (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) + (a >= 3.5f) +
          (a > 5.0f);
  return (uint8_t)(sign | c);
}
)";
constexpr const char* kFromUnsigned = R"(static inline int32_t {name}(uint8_t h) { return h; }
)";
constexpr const char* kFromSigned = R"(static inline int32_t {name}(uint8_t h) {
  return (int32_t)((uint32_t)h << {TOP}) >> {TOP};
}
)";
constexpr const char* kToInteger = R"(static inline uint8_t {name}(int32_t x) { return x & {MASK}; }
)";
constexpr const char* kFromSign = R"(static inline int32_t {name}(uint8_t h) { return 2 * h - 1; }
)";
constexpr const char* kToSign = R"(static inline uint8_t {name}(int32_t x) { return x >= 0; }
)";
// Vectors ---------------------------------------------------------------------------------------

// {PLACE} puts the stored vector into a register of the instruction's width.
constexpr const char* kWiden = R"(static inline {T} {name}({U} x) {
  typedef {PIECE} piece __attribute__((vector_size({WIDTH})));
{PLACE}  return ({T})({EXPR});
}
)";
constexpr const char* kPlaceWhole = "  piece h = (piece)x;\n";
constexpr const char* kPlaceHalf = R"(  typedef long words __attribute__((vector_size(16)));
  long w;
  __builtin_memcpy(&w, &x, 8);
  piece h = (piece)(words){w, 0};
)";
// Shifted by 7, e4m3 is an f16 whose value is 2^-8 of the code's, and whose exponent does not reach NaN. A
// product with a subnormal f32 would do as well, but takes Intel's cores 150 cycles.
constexpr const char* kWidenE4m3 = R"(static inline {T} {name}({U} x) {
  typedef char piece __attribute__((vector_size(16)));
  typedef short shorts __attribute__((vector_size(2 * {L})));
{PLACE}  shorts c = (shorts){EXPR} << 7 & (short)0xbf80;
  c |= (c << 1 == 0x7f00) & 0x7e00;
  return {halves}(({F})c) * 256.0f;
}
)";
// e5m2 is the upper byte of an f16. GCC makes five instructions of a vector conversion.
constexpr const char* kWidenE5m2 = R"(static inline {T} {name}({U} x) {
  typedef char piece __attribute__((vector_size(16)));
{PLACE}  return {halves}(({F})({EXPR}));
}
)";
constexpr const char* kWidenE8m0 = R"(static inline {T} {name}({U} x) {
  {M} c = {bytes}(({B})x), least = c == 0, nan = c == 255;
  return ({T})((c << 23 & ~nan) | (least & 0x00400000) | (nan & 0x7fc00000));
}
)";
// A load broadcasts 16 bits; a float in a general register takes two shuffles.
constexpr const char* kSpreadBf16 = R"(static inline {T} {name}(uint16_t h) {
  typedef uint16_t pieces __attribute__((vector_size({WIDTH})));
  return ({T})(({W})((pieces){0} + h) << 16);
}
)";
constexpr const char* kSpreadF16 = R"(static inline {T} {name}(_Float16 x) {
  typedef uint16_t pieces __attribute__((vector_size({WIDTH})));
  uint16_t h; __builtin_memcpy(&h, &x, 2);
  return {widen}(({U})((pieces){0} + h));
}
)";
constexpr const char* kNarrowF16x16 = R"(static inline {U} {name}({T} x) {
  return ({U})__builtin_ia32_vcvtps2ph512_mask(x, 0, (short __attribute__((vector_size(32)))){0},
                                               (unsigned short)-1);
}
)";
constexpr const char* kNarrowF16x8 = R"(static inline {U} {name}({T} x) {
  return ({U})__builtin_ia32_vcvtps2ph256(x, 0);
}
)";
constexpr const char* kNarrowBf16x16 = R"(static inline {U} {name}({T} x) {
  {W} u = ({W})x, nan = ({W})(x != x);
  u = (((u + 0x7fff + ((u >> 16) & 1)) & ~nan) | ((u | 0x400000) & nan)) >> 16;
  return ({U})__builtin_ia32_pmovdw512_mask(({M})u, (short __attribute__((vector_size(32)))){0},
                                            (unsigned short)-1);
}
)";

bool small_float(ElemType e) { return e == ElemType::f8e4m3 || e == ElemType::f8e5m2; }

const char* scalar_text(const std::string& op, ElemType e) {
  const bool from = op == "from";
  if (e == ElemType::bf16) return from ? kFromBf16 : kToBf16;
  if (e == ElemType::f16) return from ? kFromF16 : kToF16;
  if (small_float(e)) return from ? kFromF8 : kToF8;
  if (e == ElemType::e8m0) return from ? kFromE8m0 : kToE8m0;
  if (e == ElemType::i1) return from ? kFromSign : kToSign;
  if (in_value_table(e)) return from ? kFromTable : e == ElemType::nf4 ? kToNf4 : kToF4e2m1;
  if (!from) return kToInteger;
  return info(e).kind == ElemKind::UInt ? kFromUnsigned : kFromSigned;
}

// The instruction that widens a vector, where there is one: its operand and its text.
struct WidenRow {
  ElemType elem;
  int lanes;
  const char* feature;
  const char* piece;  // C type of the elements of the register that it reads
  int width;          // bytes of that register
  const char* expr;
};

constexpr WidenRow kWidenRows[] = {
    {ElemType::i8, 16, "avx512f", "char", 16,
     "__builtin_ia32_pmovsxbd512_mask(h, ({M}){0}, (unsigned short)-1)"},
    {ElemType::u8, 16, "avx512f", "char", 16,
     "__builtin_ia32_pmovzxbd512_mask(h, ({M}){0}, (unsigned short)-1)"},
    {ElemType::i16, 16, "avx512f", "short", 32,
     "__builtin_ia32_pmovsxwd512_mask(h, ({M}){0}, (unsigned short)-1)"},
    {ElemType::u16, 16, "avx512f", "short", 32,
     "__builtin_ia32_pmovzxwd512_mask(h, ({M}){0}, (unsigned short)-1)"},
    {ElemType::bf16, 16, "avx512f", "short", 32,
     "__builtin_ia32_pmovzxwd512_mask(h, ({M}){0}, (unsigned short)-1) << 16"},
    {ElemType::f16, 16, "avx512f", "short", 32,
     "__builtin_ia32_vcvtph2ps512_mask(h, ({T}){0}, (unsigned short)-1, 4)"},
    {ElemType::i8, 8, "avx2", "char", 16, "__builtin_ia32_pmovsxbd256(h)"},
    {ElemType::u8, 8, "avx2", "char", 16, "__builtin_ia32_pmovzxbd256(h)"},
    {ElemType::i16, 8, "avx2", "short", 16, "__builtin_ia32_pmovsxwd256(h)"},
    {ElemType::u16, 8, "avx2", "short", 16, "__builtin_ia32_pmovzxwd256(h)"},
    {ElemType::bf16, 8, "avx2", "short", 16, "__builtin_ia32_pmovzxwd256(h) << 16"},
    {ElemType::f16, 8, "f16c", "short", 16, "__builtin_ia32_vcvtph2ps256(h)"},
};

const WidenRow* find_row(ElemType elem, int lanes, const Target& target) {
  for (const WidenRow& row : kWidenRows) {
    if (row.elem == elem && row.lanes == lanes && target.has(row.feature)) return &row;
  }
  return nullptr;
}

bool by_bytes(ElemType e) { return small_float(e) || e == ElemType::e8m0; }

std::string widen_text(Prelude& prelude, const Target& target, Type type,
                       std::map<std::string, std::string>& values) {
  const ElemType elem = type.elem;
  if (by_bytes(elem)) {
    if (small_float(elem)) {
      const bool whole = type.lanes == 16, e5 = elem == ElemType::f8e5m2;
      values["PLACE"] = whole ? kPlaceWhole : kPlaceHalf;
      values["EXPR"] = e5 && whole ? "__builtin_ia32_pmovzxbw256(h) << 8"
                       : e5        ? "__builtin_ia32_punpcklbw128((piece){0}, h)"
                       : whole     ? "__builtin_ia32_pmovsxbw256(h)"
                                   : "__builtin_ia32_pmovsxbw128(h)";
      values["F"] = prelude.memory_type(ElemType::f16, type.lanes);
      values["halves"] = prelude.helper("widen", Type(ElemType::f16, type.lanes));
      return e5 ? kWidenE5m2 : kWidenE4m3;
    }
    const Type bytes(ElemType::u8, type.lanes);
    values["B"] = prelude.value_type(bytes);
    values["bytes"] = prelude.helper("widen", bytes);
    return kWidenE8m0;
  }
  const WidenRow* row = find_row(elem, type.lanes, target);
  TW_ASSERT(row, "no instruction widens " + to_string(type));
  values["PIECE"] = row->piece;
  values["WIDTH"] = std::to_string(row->width);
  bool whole = type.lanes * bits_of(elem) / 8 == row->width;
  values["PLACE"] = whole ? kPlaceWhole : kPlaceHalf;
  values["EXPR"] = fill_template(row->expr, values);
  return kWiden;
}

std::string spread_text(Prelude& prelude, Type type, std::map<std::string, std::string>& values) {
  const bool is_half = type.elem == ElemType::f16;
  values["WIDTH"] = std::to_string((is_half ? 2 : 4) * type.lanes);
  if (is_half) values["widen"] = prelude.helper("widen", type);
  return is_half ? kSpreadF16 : kSpreadBf16;
}

const char* narrow_text(Type type) {
  if (type.elem == ElemType::bf16) return kNarrowBf16x16;
  return type.lanes == 16 ? kNarrowF16x16 : kNarrowF16x8;
}

// Placeholders that depend on the stored type alone.
void describe(ElemType e, std::map<std::string, std::string>& values) {
  const bool e4 = e == ElemType::f8e4m3;
  values["MB"] = e4 ? "3" : "2";
  values["BIAS"] = e4 ? "7" : "15";
  values["SPECIAL"] = e4 ? "(h & 0x7f) == 0x7f" : "e == 31";
  values["SPECIALBITS"] = e4 ? "0x7fc00000u" : "(0x7f800000u | (uint32_t)m << 21)";
  values["SUBNORMAL"] = e4 ? "0x1p-9f" : "0x1p-16f";
  values["MINNORMAL"] = e4 ? "0x1p-6f" : "0x1p-14f";
  values["MAX"] = e4 ? "448.0f" : "57344.0f";
  values["MAXBITS"] = e4 ? "0x7e" : "0x7b";
  if (in_value_table(e)) values["table"] = value_table(e, 0, 16);
  values["MASK"] = std::to_string((1 << std::min(bits_of(e), 8)) - 1);
  values["TOP"] = std::to_string(32 - bits_of(e));
}

}  // namespace

std::string fill_template(std::string text, const std::map<std::string, std::string>& values) {
  for (const auto& [key, value] : values) {
    std::string token = "{" + key + "}";
    for (size_t at = 0; (at = text.find(token, at)) != std::string::npos; at += value.size()) {
      text.replace(at, token.size(), value);
    }
  }
  return text;
}

bool has_widen(ElemType elem, int lanes, const Target& target) {
  const ElemType read = elem == ElemType::f8e5m2 ? ElemType::f16
                        : by_bytes(elem)         ? ElemType::u8
                                                 : elem;
  return find_row(read, lanes, target) != nullptr;
}

bool has_spread(ElemType elem, int lanes, const Target& target) {
  const bool is_half = elem == ElemType::bf16 || elem == ElemType::f16;
  return is_half && find_row(elem, lanes, target) != nullptr;
}

bool has_narrow(ElemType elem, int lanes, const Target& target) {
  if (elem == ElemType::f16) {
    return (lanes == 16 && target.has("avx512f")) || (lanes == 8 && target.has("f16c"));
  }
  return elem == ElemType::bf16 && lanes == 16 && target.has("avx512f");
}

std::string narrow_helper(Prelude& prelude, const Target& target, const std::string& op, Type type,
                          std::map<std::string, std::string> values) {
  const ElemType elem = type.elem;
  describe(elem, values);
  if (op == "from" || op == "to") {
    bool by_float_bits = is_float(elem) && elem != ElemType::f16;
    std::string needed = by_float_bits && prelude.first_use("bits") ? kFloatBits : "";
    return needed + fill_template(scalar_text(op, elem), values);
  }
  if (op != "widen" && op != "narrow" && op != "spread") return "";
  values["T"] =
      prelude.value_type(Type(is_float(elem) ? ElemType::f32 : ElemType::i32, type.lanes));
  values["M"] = prelude.value_type(Type(ElemType::i32, type.lanes));
  values["W"] = prelude.value_type(Type(ElemType::u32, type.lanes));
  values["U"] = is_float(elem) ? prelude.memory_type(elem, type.lanes) : prelude.value_type(type);
  std::string text = op == "narrow"   ? narrow_text(type)
                     : op == "spread" ? spread_text(prelude, type, values)
                                      : widen_text(prelude, target, type, values);
  return fill_template(text, values);
}

}  // namespace tilewright
