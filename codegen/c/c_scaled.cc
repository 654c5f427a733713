#include "codegen/c/c_scaled.h"

#include <fmt/format.h>

#include "codegen/c/c_expr.h"
#include "codegen/c/c_narrow.h"
#include "codegen/c/c_packed.h"
#include "ir/bits.h"
#include "ir/predicates.h"
#include "ir/text/printer.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

constexpr int kWord = 32, kByte = 8;
constexpr int kHalves = 1;  // f4e2m1 values are multiples of 2^-kHalves

// A mask isolates an unsigned code. The highest code is shifted instead: a masked one would read as
// negative.
constexpr const char* kScaledUnsigned = R"(static inline {T} {name}(const uint8_t* p, int shift) {
  {W} w;
  __builtin_memcpy(&w, p, sizeof w);
  w = shift == {TOP} ? w >> shift : w & (uint32_t){MASK} << shift;
  return __builtin_convertvector(({M})w, {T});
}
)";
// A shift puts the sign of a signed code at the sign of its lane.
constexpr const char* kScaledSigned = R"(static inline {T} {name}(const uint8_t* p, int shift) {
  {W} w;
  __builtin_memcpy(&w, p, sizeof w);
  w = w << ({TOP} - shift) & (uint32_t){MASK} << {TOP};
  return __builtin_convertvector(({M})w, {T});
}
)";
// One bit gives the sign of 1.0.
constexpr const char* kScaledSign = R"(static inline {T} {name}(const uint8_t* p, int shift) {
  {W} w;
  __builtin_memcpy(&w, p, sizeof w);
  return ({T})((w << (31 - shift) & 0x80000000u) ^ 0xbf800000u);
}
)";
// Looks up byte-sized integers for every second code of the words at once. The calls for one vector
// of words share work, which the compiler does once after inlining.
constexpr const char* kScaledTable = R"(static inline {T} {name}(const uint8_t* p, int shift) {
  typedef char bytes __attribute__((vector_size(32)));
  {W} w;
  __builtin_memcpy(&w, p, sizeof w);
  w = ({W})__builtin_ia32_pshufb256((bytes){{table}}, (bytes)(w >> (shift & 4) & 0x0f0f0f0f));
  w = w << (24 - (shift & ~7)) & 0xff000000u;
  return __builtin_convertvector(({M})w, {T});
}
)";

bool by_bytes(Type type, const Target& target) {
  return type.elem == ElemType::f4e2m1 && type.lanes == kWord / 4 && target.has("avx2");
}

// An f32 product, in either order, of a broadcast number and a load of codes.
struct CodeProduct {
  const BroadcastNode* same = nullptr;
  const LoadNode* codes = nullptr;
};

std::optional<CodeProduct> code_product(const Expr& e) {
  auto* n = e.as<BinaryNode>();
  if (!n || n->op != BinaryOp::Mul || n->type.elem != ElemType::f32) return std::nullopt;
  for (const auto& [a, b] : {std::pair{n->a, n->b}, std::pair{n->b, n->a}}) {
    auto* cast = b.as<CastNode>();
    CodeProduct found{a.as<BroadcastNode>(), cast ? cast->value.as<LoadNode>() : nullptr};
    bool few = found.same && found.codes && bits_of(found.codes->type.elem) < kByte;
    if (few && !found.codes->predicate.defined()) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int> scaled_exponent(Type type, int shift, const Target& target) {
  const int bits = bits_of(type.elem);
  if (bits >= kByte || has_value_table(type.elem, type.lanes, target)) return std::nullopt;
  if (type.elem == ElemType::i1) return 0;
  if (by_bytes(type, target)) return kWord - kByte + kHalves;
  if (!is_integer(type.elem)) return std::nullopt;
  if (info(type.elem).kind == ElemKind::Int) return kWord - bits;
  return shift + bits == kWord ? 0 : shift;
}

std::string scaled_helper(Prelude& prelude, const std::string& op, Type type,
                          std::map<std::string, std::string> values) {
  if (op != "scaled_words") return "";
  const int bits = bits_of(type.elem);
  values["W"] = prelude.value_type(Type(ElemType::u32, type.lanes));
  values["M"] = prelude.value_type(Type(ElemType::i32, type.lanes));
  values["T"] = prelude.value_type(Type(ElemType::f32, type.lanes));
  values["MASK"] = std::to_string((1 << bits) - 1);
  values["TOP"] = std::to_string(kWord - bits);
  if (type.elem == ElemType::i1) return fill_template(kScaledSign, values);
  if (is_integer(type.elem)) {
    return fill_template(info(type.elem).kind == ElemKind::Int ? kScaledSigned : kScaledUnsigned,
                         values);
  }
  std::vector<int> table;
  for (uint64_t i = 0; i < 32; ++i)
    table.push_back(static_cast<int>(from_bits(type.elem, i & 15) * (1 << kHalves)));
  values["table"] = fmt::format("{}", fmt::join(table, ", "));
  return fill_template(kScaledTable, values);
}

// The location of the codes: the first word, and the bit position in it.
std::optional<std::pair<Expr, int>> CExpr::words_of(const LoadNode& n) {
  auto* r = n.indices[0].as<RampNode>();
  const int bits = bits_of(n.type.elem);
  const int64_t in_word = kWord / bits;
  bool words = r && is_int(r->stride, in_word) && buffers.at(n.buffer.get()).variables.empty();
  auto place = words ? as_int(known_.simplify(floormod(r->base, Expr(in_word)))) : std::nullopt;
  if (!place) return std::nullopt;
  return std::pair{known_.simplify(r->base - Expr(*place)), static_cast<int>(*place) * bits};
}

void CExpr::count_factors(const std::vector<const StoreNode*>& stores) {
  factors_.clear();
  for (const StoreNode* s : stores) {
    for_each_expr(s->value, [&](const Expr& e) {
      auto product = code_product(e);
      if (!product) return;
      const LoadNode& codes = *product->codes;
      factors_[{codes.buffer.get(), to_string(codes.indices[0])}].insert(
          to_string(product->same->value));
    });
  }
}

// Scales the factor instead of the codes: many vectors of codes share it, so this costs less. Codes
// that these stores multiply with several factors are left out.
std::string CExpr::scaled_product(const Expr& e) {
  auto product = code_product(e);
  if (!product) return "";
  const LoadNode& codes = *product->codes;
  auto factors = factors_.find({codes.buffer.get(), to_string(codes.indices[0])});
  if (factors != factors_.end() && factors->second.size() > 1) return "";
  auto words = words_of(codes);
  if (!words) return "";
  auto exponent = scaled_exponent(codes.type, words->second, prelude_.target());
  if (!exponent) return "";
  std::string factor = splat(print(product->same->value), e.type());
  if (*exponent != 0) {
    factor = fmt::format("({} * {})", factor, splat(fmt::format("0x1p-{}f", *exponent), e.type()));
  }
  return fmt::format("({} * {}(&{}, {}))", factor, prelude_.helper("scaled_words", codes.type),
                     element(codes.buffer, words->first), words->second);
}

}  // namespace tilewright
