#include "codegen/c_codes.h"

#include <fmt/format.h>

#include "codegen/c_narrow.h"
#include "ir/bits.h"

namespace tilewright {
namespace {

constexpr int kTableLanes = 32;  // entries of a table that a vector of 16-bit words is looked up in

// {W} has lanes of 16 bits: there are no shifts of bytes, and the mask takes off what comes over
// from a neighbour.
constexpr const char* kIntegers =
    R"(static inline {T} {name}(const uint8_t* p, int shift) {
  {W} w;
  __builtin_memcpy(&w, p, sizeof w);
  {T} c = ({T})(w >> shift) & {MASK};
  return {VALUE};
}
)";
// The permutation looks at the lowest 5 bits alone. A table for codes of fewer bits repeats itself.
constexpr const char* kTable = R"(static inline {T} {name}(const uint8_t* p, int shift) {
  {W} w;
  __builtin_memcpy(&w, p, sizeof w);
  return ({T})__builtin_shuffle(({W}){{table}}, w >> shift);
}
)";

std::string table_of(ElemType from, ElemType to) {
  std::vector<uint64_t> entries;
  const uint64_t mask = (uint64_t{1} << bits_of(from)) - 1;
  for (uint64_t i = 0; i < kTableLanes; ++i)
    entries.push_back(to_bits(to, from_bits(from, i & mask)));
  return fmt::format("{:#x}", fmt::join(entries, ", "));
}

}  // namespace

bool has_codes(ElemType from, ElemType to, int lanes) {
  if (bits_of(from) >= 8) return false;
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
    values["table"] = table_of(from, to);
    return fill_template(kTable, values);
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
