#include "codegen/c/c_window.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "codegen/c/c_expr.h"
#include "codegen/c/c_narrow.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

// {W} is a vector of words with one half of the neighbours; {O} has one word per lane.
constexpr const char* kPick =
    R"(static inline {M} {name}(const {E}* p, {O} order) {
  {W} low, high;
  __builtin_memcpy(&low, p, sizeof low);
  __builtin_memcpy(&high, p + {HALF}, sizeof high);
  return ({M}){PICKED};
}
)";
constexpr const char* kAllLanes = "__builtin_shuffle(low, high, order)";
constexpr const char* kFirstLanes =
    "__builtin_shufflevector(__builtin_shuffle(low, high, "
    "__builtin_shufflevector(order, order{WIDENED})), low{FIRST})";

// {L} elements of 2 {L} - 1 that stand side by side: the first and last of these are read, and no byte beside
// them. {LOW} and {HIGH} are the addresses or heads of both halves.
constexpr const char* kSecond =
    R"(static inline {M} {name}(const {E}* p{COUNT}) {
  {M} low = {LOW}, high = {HIGH};
  return __builtin_shufflevector(low, high{EVERY});
}
)";

// The position of each lane among its neighbours: a part known per lane, plus a loaded part below
// `bound`.
struct WindowPlaces {
  Expr known;
  const LoadNode* loaded = nullptr;
  int64_t bound = 0;
};

// Recognizes floormod(cast(load), bound) of one vector of bytes, bound a power of two.
bool read_bounded(const Expr& e, WindowPlaces& places) {
  auto* n = e.as<BinaryNode>();
  if (!n || n->op != BinaryOp::FloorMod || places.loaded) return false;
  auto* same = n->b.as<BroadcastNode>();
  auto bound = as_int(same ? same->value : n->b);
  auto* widened = n->a.as<CastNode>();
  auto* load = widened ? widened->value.as<LoadNode>() : nullptr;
  bool plain = load && load->type.elem == ElemType::u8 && !load->predicate.defined() && bound;
  if (!plain || *bound < 1 || !std::has_single_bit(static_cast<uint64_t>(*bound))) return false;
  places.loaded = load;
  places.bound = *bound;
  return true;
}

bool read_places(const Expr& e, WindowPlaces& places) {
  if (read_bounded(e, places)) return true;
  bool loads = false;
  for_each_expr(e, [&](const Expr& x) { loads |= x.as<LoadNode>() != nullptr; });
  if (!loads) {
    places.known = places.known.defined() ? places.known + e : e;
    return true;
  }
  auto* sum = e.as<BinaryNode>();
  return sum && sum->op == BinaryOp::Add && read_places(sum->a, places) &&
         read_places(sum->b, places);
}

std::string numbers(int count, int repeat) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format(", {}", i % repeat);
  return text;
}

std::string second_helper(Prelude& prelude, bool head, Type type,
                          std::map<std::string, std::string> values) {
  const int lanes = type.lanes;
  values["M"] = prelude.memory_type(type.elem, lanes);
  values["E"] = storage_type(type.elem);
  for (int i = 0; i < lanes; ++i) {
    values["EVERY"] += fmt::format(", {}", 2 * i < lanes ? 2 * i : 2 * i + 1);
  }
  const std::string load = head ? prelude.helper("load_head", type) : "";
  values["COUNT"] = head ? ", int64_t n" : "";
  values["LOW"] = head ? load + "(p, 2 * n - 1)" : fill_template("*(const {M}*)p", values);
  values["HIGH"] = head ? fmt::format("{}(p + {}, 2 * n - {})", load, lanes - 1, lanes)
                        : fill_template(fmt::format("*(const {{M}}*)(p + {})", lanes - 1), values);
  return fill_template(kSecond, values);
}

}  // namespace

std::optional<ElemType> word_of_element(ElemType elem) {
  if (bits_of(elem) == 16) return ElemType::u16;
  if (bits_of(elem) == 32) return ElemType::u32;
  return std::nullopt;
}

std::string window_helper(Prelude& prelude, const std::string& op, Type type,
                          std::map<std::string, std::string> values) {
  if (op.starts_with("second")) return second_helper(prelude, op == "second_head", type, values);
  if (!op.starts_with("pick")) return "";
  const int half = std::stoi(op.substr(4)) / 2;
  const ElemType word = *word_of_element(type.elem);
  values["M"] = prelude.memory_type(type.elem, type.lanes);
  values["E"] = storage_type(type.elem);
  values["O"] = prelude.value_type(Type(word, type.lanes));
  values["W"] = prelude.value_type(Type(word, half));
  values["HALF"] = std::to_string(half);
  values["WIDENED"] = numbers(half, type.lanes);
  values["FIRST"] = numbers(type.lanes, type.lanes);
  values["PICKED"] = fill_template(type.lanes == half ? kAllLanes : kFirstLanes, values);
  return fill_template(kPick, values);
}

// Lanes that each read one of the next few elements, in stored form. The distance is a known part
// plus a loaded part per lane. "" for others.
std::string CExpr::window(const LoadNode& n) {
  const int lanes = n.type.lanes;
  auto word = word_of_element(n.type.elem);
  auto size = as_int(n.buffer->shape[0]);
  WindowPlaces places;
  bool fits = word && size && lanes >= 4 && !n.predicate.defined() &&
              buffers.at(n.buffer.get()).variables.empty() && read_places(n.indices[0], places) &&
              places.loaded && places.known.defined();
  if (!fits) return "";
  const Expr first = known_.simplify(lane_of(places.known, 0));
  std::string order;
  int64_t most = 0;
  for (int i = 0; i < lanes; ++i) {
    auto ahead = as_int(known_.simplify(lane_of(places.known, i) - first));
    if (!ahead || *ahead < 0) return "";
    most = std::max(most, *ahead);
    order += fmt::format("{}{}", i == 0 ? "" : ", ", *ahead);
  }
  int64_t half = std::max<int64_t>(lanes, (most + places.bound + 1) / 2);
  half = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(half)));
  Interval at = known_.bounds(first);
  const int64_t widest = prelude_.target().lanes(bits_of(n.type.elem));
  if (half > std::max<int64_t>(widest, 4) || at.min < 0 || at.max > *size - 2 * half) return "";
  std::string type = prelude_.value_type(Type(*word, lanes));
  return fmt::format("{}(&{}, (__builtin_convertvector({}, {}) & {}) + ({}){{{}}})",
                     prelude_.helper(fmt::format("pick{}", 2 * half), n.type),
                     element(n.buffer, first), load_text(*places.loaded), type, places.bound - 1,
                     type, order);
}

// Every second element, in stored form. "" for others.
std::string CExpr::every_second(const LoadNode& n) {
  const auto* r = n.indices[0].as<RampNode>();
  const bool fits = r && is_int(r->stride, 2) && n.type.lanes >= 4 &&
                    word_of_element(n.type.elem) && buffers.at(n.buffer.get()).variables.empty();
  if (!fits) return "";
  const std::string at = "&" + element(n.buffer, r->base);
  if (!n.predicate.defined()) {
    return fmt::format("{}({})", prelude_.helper("second", n.type), at);
  }
  const std::string head = head_lanes(n.predicate);
  if (head.empty()) return "";
  return fmt::format("{}({}, {})", prelude_.helper("second_head", n.type), at, head);
}

}  // namespace tilewright
