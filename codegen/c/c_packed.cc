#include "codegen/c/c_packed.h"

#include <fmt/format.h>

#include "codegen/c/c_narrow.h"
#include "ir/bits.h"

namespace tilewright {
namespace {

constexpr const char* kGet = R"(static inline uint8_t {name}(const uint8_t* p, int64_t i) {
  return p[i >> {BYTE}] >> (i & {SLOTS}) * {BITS} & {MASK};
}
)";
constexpr const char* kPut = R"(static inline void {name}(uint8_t* p, int64_t i, uint8_t h) {
  int shift = (int)(i & {SLOTS}) * {BITS};
  p[i >> {BYTE}] = (uint8_t)((p[i >> {BYTE}] & ~({MASK} << shift)) | h << shift);
}
)";

// Each of these helpers leaves an element in the lowest bits of every 32-bit lane. The next step
// removes the bits above it. This one copies the word into every lane and shifts it by the lane's
// bit position. GCC keeps a word that is filled by half in memory, and decodes it anew for each use.
constexpr const char* kRawWord = R"(static inline {M} {name}(const uint8_t* p) {
  {LOADED} codes;
  __builtin_memcpy(&codes, p, sizeof codes);
  uint32_t w = codes;
  return ({M})(({W}){{copies}} >> ({W}){{shifts}});
}
)";
// 16 elements of 4 bits: every 64 bits take a byte, whose high half goes to the upper lane.
constexpr const char* kRawPairs = R"(static inline {M} {name}(const uint8_t* p) {
  typedef long words __attribute__((vector_size(16)));
  typedef char bytes __attribute__((vector_size(16)));
  typedef long long wide __attribute__((vector_size(64)));
  long w;
  __builtin_memcpy(&w, p, 8);
  {Q} q = ({Q})__builtin_ia32_pmovzxbq512_mask((bytes)(words){w, 0}, (wide){0}, (unsigned char)-1);
  return ({M})(q | q << 28);
}
)";
constexpr const char* kRawLanes = R"(static inline {M} {name}(const uint8_t* p) {
  {M} r;
  for (int i = 0; i < {L}; ++i) r[i] = {get}(p, i);
  return r;
}
)";
constexpr const char* kRawWords = R"(static inline {M} {name}(const uint8_t* p, int shift) {
  {W} w;
  __builtin_memcpy(&w, p, 4 * {L});
  return ({M})(w >> shift);
}
)";

// Conversions from lanes with an element in their lowest bits to values.
constexpr const char* kPackedUnsigned = R"(static inline {T} {name}({PARAMETERS}) {
  return {raw}({ARGUMENTS}) & {MASK};
}
)";
constexpr const char* kPackedSigned = R"(static inline {T} {name}({PARAMETERS}) {
  return ({raw}({ARGUMENTS}) << {TOP}) >> {TOP};
}
)";
constexpr const char* kPackedSign = R"(static inline {T} {name}({PARAMETERS}) {
  return ({raw}({ARGUMENTS}) & 1) * 2 - 1;
}
)";
// The permutation reads only the lowest 4 bits of an index.
constexpr const char* kTable16 = R"(static inline {T} {name}({PARAMETERS}) {
  return __builtin_shuffle(({T}){{table}}, {raw}({ARGUMENTS}));
}
)";
constexpr const char* kTable8 = R"(static inline {T} {name}({PARAMETERS}) {
  return __builtin_shuffle(({T}){{low}}, ({T}){{high}}, {raw}({ARGUMENTS}) & 15);
}
)";
constexpr const char* kPackedTable = R"(static inline {T} {name}({PARAMETERS}) {
  {M} c = {raw}({ARGUMENTS}) & 15;
  {T} r;
  for (int i = 0; i < {L}; ++i) r[i] = {from}((uint8_t)c[i]);
  return r;
}
)";

const char* raw_text(Prelude& prelude, const Target& target, Type type,
                     std::map<std::string, std::string>& values) {
  const int bits = bits_of(type.elem), total = bits * type.lanes;
  if (total == 64 && bits == 4 && target.has("avx512f")) {
    values["Q"] = prelude.value_type(Type(ElemType::u64, 8));
    return kRawPairs;
  }
  if (total > 32 || total == 24) {
    values["get"] = prelude.helper("get", type.with_lanes(1));
    return kRawLanes;
  }
  std::vector<std::string> copies, shifts;
  for (int i = 0; i < type.lanes; ++i) {
    copies.emplace_back("w");
    shifts.push_back(std::to_string(i * bits));
  }
  values["LOADED"] = fmt::format("uint{}_t", total);
  values["copies"] = fmt::format("{}", fmt::join(copies, ", "));
  values["shifts"] = fmt::format("{}", fmt::join(shifts, ", "));
  return kRawWord;
}

// `to` is the type to which a table's values are rounded.
const char* value_text(Prelude& prelude, Type type, bool by_table, ElemType to,
                       std::map<std::string, std::string>& values) {
  const ElemType elem = type.elem;
  if (by_table) {
    values["table"] = value_table(elem, 0, 16, to);
    return kTable16;
  }
  if (elem == ElemType::i1) return kPackedSign;
  if (!in_value_table(elem))
    return info(elem).kind == ElemKind::UInt ? kPackedUnsigned : kPackedSigned;
  if (type.lanes == 8) {
    values["low"] = value_table(elem, 0, 8, to);
    values["high"] = value_table(elem, 8, 8, to);
    return kTable8;
  }
  values["from"] = prelude.helper("from", type.with_lanes(1));
  return kPackedTable;
}

}  // namespace

bool in_value_table(ElemType elem) { return elem == ElemType::nf4 || elem == ElemType::f4e2m1; }

bool has_value_table(ElemType elem, int lanes, const Target& target) {
  return bits_of(elem) < 8 && lanes == 16 && target.has("avx512f");
}

bool tells_rounded(ElemType elem, ElemType to, int lanes, const Target& target) {
  const bool is_half = to == ElemType::f16 || to == ElemType::bf16;
  return in_value_table(elem) && is_half && (lanes == 8 || has_value_table(elem, lanes, target));
}

std::string value_table(ElemType elem, int first, int count, ElemType to) {
  std::vector<std::string> items;
  for (int c = first; c < first + count; ++c) {
    auto code = static_cast<uint64_t>(c & ((1 << bits_of(elem)) - 1));
    std::string text =
        fmt::format("{:.9g}", static_cast<float>(round_to(to, from_bits(elem, code))));
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    items.push_back(text + "f");
  }
  return fmt::format("{}", fmt::join(items, ", "));
}

std::string packed_helper(Prelude& prelude, const Target& target, const std::string& op, Type type,
                          std::map<std::string, std::string> values) {
  const ElemType elem = type.elem;
  const int bits = bits_of(elem);
  if (bits >= 8) return "";
  values["BITS"] = std::to_string(bits);
  values["MASK"] = std::to_string((1 << bits) - 1);
  values["SLOTS"] = std::to_string(8 / bits - 1);
  values["BYTE"] = bits == 4 ? "1" : bits == 2 ? "2" : "3";
  values["TOP"] = std::to_string(32 - bits);
  if (op == "get" || op == "put") return fill_template(op == "get" ? kGet : kPut, values);

  const bool f32 = op == "load_packed_f32" || op == "load_words_f32" || is_float(elem);
  values["M"] = prelude.value_type(Type(ElemType::i32, type.lanes));
  values["W"] = prelude.value_type(Type(ElemType::u32, type.lanes));
  values["T"] = f32 ? prelude.value_type(Type(ElemType::f32, type.lanes)) : values["M"];
  if (op == "raw_packed") {
    std::string text = raw_text(prelude, target, type, values);
    return fill_template(text, values);
  }
  if (op == "raw_words") return fill_template(kRawWords, values);
  const bool words = op.starts_with("load_words");
  if (!words && !op.starts_with("load_packed")) return "";
  const ElemType to = op.ends_with("_bf16")  ? ElemType::bf16
                      : op.ends_with("_f16") ? ElemType::f16
                                             : ElemType::f32;
  values["raw"] = prelude.helper(words ? "raw_words" : "raw_packed", type);
  values["PARAMETERS"] = words ? "const uint8_t* p, int shift" : "const uint8_t* p";
  values["ARGUMENTS"] = words ? "p, shift" : "p";
  const bool by_table = f32 && has_value_table(elem, type.lanes, target);
  return fill_template(value_text(prelude, type, by_table, to, values), values);
}

}  // namespace tilewright
