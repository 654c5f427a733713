// Vector lookups: each lane reads one of a few neighbours, at a position stored in a few bits.
#include "codegen/c/c_lookup.h"

#include <fmt/format.h>

#include "codegen/c/c_expr.h"
#include "codegen/c/c_narrow.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

constexpr int kWordLanes = 32;                      // 16-bit lanes of a vector that serves as table
constexpr const char* kPrefix = "four_neighbours";  // prefix of helper names

// After a shift, the lowest bits of each 16-bit word hold a lane's position. The bits above them
// make no difference, since the four elements repeat.
constexpr const char* kNeighbours =
    R"(static inline {M} {name}(const {E}* p, const uint8_t* places, int shift) {
  typedef char bytes __attribute__((vector_size(32)));
  typedef short words __attribute__((vector_size(64)));
  {P} w;
  uint64_t four;
  __builtin_memcpy(&w, places, sizeof w);
  __builtin_memcpy(&four, p, sizeof four);
  {Q} all = four - ({Q}){0};
  words order = (words)(({W}){WIDE} >> shift);
  return ({M})__builtin_ia32_permvarhi512_mask((words)all, order, order, (unsigned)-1);
}
)";
constexpr const char* kWideBytes = "__builtin_ia32_pmovzxbw512_mask(w, (words){0}, (unsigned)-1)";

// Splits an index into a part that is the same for all lanes, and a load of a few unsigned bits per
// lane. The first part is undefined for other indices.
std::pair<Expr, const LoadNode*> split_place(const Expr& index) {
  if (auto* same = index.as<BroadcastNode>()) return {same->value, nullptr};
  if (auto* cast = index.as<CastNode>()) {
    auto* load = cast->value.as<LoadNode>();
    bool few = load && !load->predicate.defined() && bits_of(load->type.elem) < 8 &&
               info(load->type.elem).kind == ElemKind::UInt;
    return few ? std::pair(Expr(0), load) : std::pair(Expr(), load);
  }
  auto* sum = index.as<BinaryNode>();
  if (!sum || sum->op != BinaryOp::Add) return {Expr(), nullptr};
  auto [a, first] = split_place(sum->a);
  auto [b, second] = split_place(sum->b);
  if (!a.defined() || !b.defined() || (first && second)) return {Expr(), nullptr};
  return {a + b, first ? first : second};
}

// The number of elements that such a position can select.
int64_t count_of(const LoadNode& place) { return int64_t{1} << bits_of(place.type.elem); }

}  // namespace

std::string neighbours_helper(Prelude& prelude, const std::string& op, Type type,
                              std::map<std::string, std::string> values) {
  if (!op.starts_with(kPrefix)) return "";
  const bool bytes = op.ends_with("_8");
  values["M"] = prelude.memory_type(type.elem, type.lanes);
  values["E"] = storage_type(type.elem);
  values["P"] = bytes ? "bytes" : "words";
  values["WIDE"] = bytes ? kWideBytes : "w";
  values["W"] = prelude.value_type(Type(ElemType::u16, type.lanes));
  values["Q"] = prelude.value_type(Type(ElemType::u64, 8));
  return fill_template(kNeighbours, values);
}

bool has_neighbours(ElemType place, int64_t per_word) {
  const int64_t word = per_word * bits_of(place);
  return place == ElemType::u2 && (word == 8 || word == 16);
}

// Lookups of 16-bit elements in stored form, at positions that are codes in consecutive words. ""
// for others.
std::string CExpr::neighbours(const LoadNode& n) {
  const int lanes = n.type.lanes;
  auto size = as_int(n.buffer->shape[0]);
  auto [base, place] = split_place(n.indices[0]);
  bool fits = bits_of(n.type.elem) == 16 && lanes == kWordLanes && !n.predicate.defined() && size &&
              base.defined() && place && buffers.at(n.buffer.get()).variables.empty() &&
              buffers.at(place->buffer.get()).variables.empty() &&
              prelude_.target().has("avx512bw");
  if (!fits) return "";
  auto* words = place->indices[0].as<RampNode>();
  auto per_word = words ? as_int(words->stride) : std::nullopt;
  if (!per_word || !has_neighbours(place->type.elem, *per_word)) return "";
  auto at = as_int(known_.simplify(floormod(words->base, Expr(*per_word))));
  const int64_t count = count_of(*place);
  Interval first = known_.bounds(base);
  if (!at || first.min < 0 || first.max > *size - count) return "";
  const int bits = bits_of(place->type.elem);
  std::string helper = prelude_.helper(fmt::format("{}_{}", kPrefix, *per_word * bits), n.type);
  Expr word = known_.simplify(words->base - Expr(*at));
  return fmt::format("{}(&{}, &{}, {})", helper, element(n.buffer, known_.simplify(base)),
                     element(place->buffer, word), *at * bits);
}

// Lookups of f32 elements by a shuffle, where the buffer holds every element that the position can
// select. "" for others.
std::string CExpr::table_load(const LoadNode& n) {
  const int lanes = n.type.lanes;
  auto size = as_int(n.buffer->shape[0]);
  auto [base, place] = split_place(n.indices[0]);
  if (n.type.elem != ElemType::f32 || n.predicate.defined()) return "";
  if (!size || !base.defined() || !place) return "";
  const int64_t count = count_of(*place);
  Interval first = known_.bounds(base);
  if (count > lanes || first.min < 0 || first.max > *size - count) return "";
  std::string memory = prelude_.memory_type(n.type.elem, static_cast<int>(count)), order;
  for (int i = 0; i < lanes; ++i) order += fmt::format(", {}", i % count);
  std::string table = fmt::format("*(const {}*)(&{})", memory, element(n.buffer, base));
  return fmt::format(
      "__builtin_shuffle(({})__builtin_shufflevector({}, {}{}), "
      "__builtin_convertvector({}, {}))",
      prelude_.value_type(n.type), table, table, order, load_text(*place),
      prelude_.value_type(Type(ElemType::i32, lanes)));
}

}  // namespace tilewright
