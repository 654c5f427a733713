#include "codegen/c/c_codes.h"

#include <fmt/format.h>

#include "codegen/c/c_narrow.h"
#include "ir/bits.h"

namespace tilewright {
namespace {

constexpr int kTableLanes = 32;  // entries of a lookup table for a vector of 16-bit words

// {W} has 16-bit lanes, since there are no byte shifts. The mask clears the bits that a shift
// brings in from a neighbour.
constexpr const char* kIntegers =
    R"(static inline {T} {name}(const uint8_t* p, int shift) {
  {W} w;
  __builtin_memcpy(&w, p, sizeof w);
  {T} c = ({T})(w >> shift) & {MASK};
  return {VALUE};
}
)";
// The permutation reads only the lowest 5 bits of an index. Codes of fewer than 4 bits stand there
// side by side. Each position has its own table, so that one shift serves all codes within 4 bits.
constexpr const char* kTable = R"(static inline {T} {name}(const uint8_t* p, int shift) {
  {W} w;
  __builtin_memcpy(&w, p, sizeof w);
  return ({T})__builtin_shuffle({tables}, w >> (shift & ~3));
}
)";
// The same with vpermw: GCC turns a shuffle of one vector into a shuffle of two, which is slower.
constexpr const char* kTable512 = R"(static inline {T} {name}(const uint8_t* p, int shift) {
  typedef short words __attribute__((vector_size(64)));
  {W} w;
  __builtin_memcpy(&w, p, sizeof w);
  words code = (words)(w >> (shift & ~3));
  return ({T})__builtin_ia32_permvarhi512_mask((words)({tables}), code, code, (unsigned)-1);
}
)";

// Looks up all bits of an 8-bit float except the sign, in a table of 128 entries. Each half of the
// table is two vectors, of whose index the permutations read the lowest 6 bits.
constexpr const char* kTable128 = R"(static inline {T} {name}(const uint8_t* p, int shift) {
  typedef short words __attribute__((vector_size(64)));
  {W} w;
  __builtin_memcpy(&w, p, sizeof w);
  {W} code = w >> shift, sign = shift == 0 ? w << 8 : w;
  {W} low = __builtin_shuffle(({W}){{q0}}, ({W}){{q1}}, code);
  {W} high = __builtin_shuffle(({W}){{q2}}, ({W}){{q3}}, code);
  unsigned upper = __builtin_ia32_ptestmw512((words)code, (words)(({W}){0} + 64), (unsigned)-1);
  {W} r = ({W})__builtin_ia32_blendmw_512_mask((words)low, (words)high, upper);
  return ({T})(r | (sign & 0x8000));
}
)";

// The same with vpermi2b, for the codes in all bytes at once. Two tables of 128 bytes give the
// upper and the lower byte of each element. The permutation reads only the lowest 7 bits of an
// index. The calls for the two halves of the words share work, which the compiler does once after
// inlining.
constexpr const char* kBytes128 = R"(static inline {T} {name}(const uint8_t* p, int shift) {
  typedef uint8_t bytes __attribute__((vector_size(64)));
  bytes code;
  __builtin_memcpy(&code, p, sizeof code);
  bytes low = __builtin_shuffle((bytes){{l0}}, (bytes){{l1}}, code);
  bytes high = __builtin_shuffle((bytes){{h0}}, (bytes){{h1}}, code) | (code & 0x80);
  {W} l = ({W})low, h = ({W})high;
  return ({T})(shift == 0 ? h << 8 | (l & 0xff) : (h & 0xff00) | l >> 8);
}
)";

// The table entries from `first` on, for codes at bit `place` of the index.
std::string table_of(ElemType from, ElemType to, int place, uint64_t first = 0) {
  std::vector<uint64_t> entries;
  const uint64_t mask = (uint64_t{1} << bits_of(from)) - 1;
  for (uint64_t i = first; i < first + kTableLanes; ++i)
    entries.push_back(to_bits(to, round_to(to, from_bits(from, i >> place & mask))));
  return fmt::format("{:#x}", fmt::join(entries, ", "));
}

// One byte, from bit `at` on, of the values of 64 codes from `first` on.
std::string bytes_of(ElemType from, ElemType to, uint64_t first, int at) {
  std::vector<uint64_t> entries;
  for (uint64_t i = first; i < first + 64; ++i) {
    entries.push_back(to_bits(to, round_to(to, from_bits(from, i))) >> at & 0xff);
  }
  return fmt::format("{:#x}", fmt::join(entries, ", "));
}

// The expression that selects the table by the code's position within its 4 bits.
std::string tables_of(ElemType from, ElemType to, const std::string& type) {
  std::string text;
  for (int place = 4 - bits_of(from); place >= 0; place -= bits_of(from)) {
    const std::string table = fmt::format("({}){{{}}}", type, table_of(from, to, place));
    text = text.empty() ? table : fmt::format("(shift & 3) == {} ? {} : {}", place, table, text);
  }
  return text;
}

}  // namespace

bool has_codes(ElemType from, ElemType to, int lanes) {
  const bool small_float = from == ElemType::f8e4m3 || from == ElemType::f8e5m2;
  if (bits_of(from) > 8 || (bits_of(from) == 8 && !small_float)) return false;
  if (to == ElemType::bf16) return lanes == kTableLanes;
  bool narrow = to == ElemType::i8 || to == ElemType::u8 || to == ElemType::i16;
  return narrow && is_integer(from) && lanes >= 8;
}

std::string codes_helper(Prelude& prelude, const std::string& op, Type type,
                         std::map<std::string, std::string> values) {
  if (!op.starts_with("codes_")) return "";
  const ElemType from = type.elem, to = *parse_elem_type(op.substr(6));
  const int bits = bits_of(from);
  values["W"] = prelude.value_type(Type(ElemType::u16, type.lanes * bits_of(to) / 16));
  if (to == ElemType::bf16) {
    values["T"] = prelude.memory_type(to, type.lanes);
    if (bits == 8 && prelude.may_use("avx512vbmi")) {
      for (uint64_t half = 0; half < 2; ++half) {
        values["l" + std::to_string(half)] = bytes_of(from, to, half * 64, 0);
        values["h" + std::to_string(half)] = bytes_of(from, to, half * 64, 8);
      }
      return fill_template(kBytes128, values);
    }
    if (bits == 8) {
      for (uint64_t q = 0; q < 4; ++q) {
        values["q" + std::to_string(q)] = table_of(from, to, 0, q * kTableLanes);
      }
      return fill_template(kTable128, values);
    }
    values["tables"] = tables_of(from, to, values["W"]);
    return fill_template(prelude.target().has("avx512bw") ? kTable512 : kTable, values);
  }
  values["T"] = prelude.value_type(Type(to, type.lanes));
  values["MASK"] = std::to_string((1 << bits) - 1);
  const std::string sign = std::to_string(1 << (bits - 1));
  values["VALUE"] = from == ElemType::i1                ? "c + c - 1"
                    : info(from).kind == ElemKind::UInt ? "c"
                                                        : "(c ^ " + sign + ") - " + sign;
  return fill_template(kIntegers, values);
}

}  // namespace tilewright
