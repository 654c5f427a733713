// Elements of a few bits in CUDA kernels: single codes, and packed registers made of words of them.
#include <fmt/format.h>

#include "codegen/cuda/cuda_expr.h"
#include "codegen/cuda_lowering.h"
#include "codegen/lowering.h"
#include "ir/compare.h"
#include "ir/predicates.h"
#include "kernel/prelude/cuda_prelude.h"

namespace tilewright {
namespace {

constexpr int kWordBits = 32;

// A value as elements made of codes, less a number that all lanes share; 0 where a condition fails.
struct Codes {
  const LoadNode* load = nullptr;
  Expr zero = {};  // undefined: nothing is subtracted
  Expr cond = {};  // undefined: there is none
  Expr high = {};  // for elements stored as halves: whether these are the first ones
};

// Whether a cast is exact: floats of 16 bits hold every integer of at most 8 bits.
bool is_exact(const CastNode& n) {
  const ElemType from = n.value.type().elem;
  return is_float(n.type.elem) && bits_of(n.type.elem) >= 16 && is_integer(from) &&
         bits_of(from) <= 8;
}

// Recognizes select(first, high, low) as store_halves() writes it.
Codes halves_of(const SelectNode& n) {
  auto* rounded = n.on_true.as<CastNode>();
  auto* left = n.on_false.as<CastNode>();
  auto* rest = left ? left->value.as<BinaryNode>() : nullptr;
  const LoadNode* load = rounded ? load_under_casts(n.on_true) : nullptr;
  bool is_half = load && rest && rest->op == BinaryOp::Sub && left->type == rounded->type &&
                 equal(rounded->value, rest->a);
  auto* whole = is_half ? rest->b.as<CastNode>() : nullptr;
  if (!whole || !equal(whole->value, n.on_true)) return {};
  Codes codes{load};
  codes.high = n.cond;
  return codes;
}

Codes codes_of(const Expr& value) {
  if (auto* n = value.as<SelectNode>(); n && is_zero(n->on_false)) {
    Codes codes = codes_of(n->on_true);
    codes.cond = n->cond;
    return codes;
  }
  if (auto* n = value.as<SelectNode>()) return halves_of(*n);
  if (auto* n = value.as<BinaryNode>(); n && n->op == BinaryOp::Sub) {
    Codes codes = codes_of(n->a);
    auto* same = n->b.as<BroadcastNode>();
    if (!same || codes.zero.defined() || codes.cond.defined()) return {};
    codes.zero = same->value;
    // A cast that changes only bits which the elements do not have makes no difference. An exact
    // cast is passed on as its operand.
    auto* changed = codes.zero.as<CastNode>();
    if (changed && (bits_of(changed->type.elem) < 8 || is_exact(*changed))) {
      codes.zero = changed->value;
    }
    return codes;
  }
  auto* widened = value.as<CastNode>();
  return {widened ? widened->value.as<LoadNode>() : value.as<LoadNode>()};
}

}  // namespace

std::string CudaExpr::code_text(const LoadNode& n, int lane) {
  const int bits = bits_of(n.type.elem), slots = 8 / bits;
  std::string code;
  if (auto it = loaded_.find(&n); it != loaded_.end()) {
    code = fmt::format("{}[{}]", it->second, lane / slots);
    return slots == 1 ? code : fmt::format("tw_code<{}>({}, {})", bits, code, lane % slots);
  }
  Expr index = n.indices[0].type().is_scalar() ? n.indices[0] : lane_of(n.indices[0], lane);
  code = element(n.buffer, index);
  if (slots > 1) {
    Expr slot = known_.simplify(floormod(index, Expr(slots)));
    code = fmt::format("tw_code<{}>({}, {})", bits, code, print_bare(slot));
  }
  return code;
}

std::string CudaExpr::coded_value(const LoadNode& n, int lane) {
  const ElemType elem = n.type.elem;
  // The value of an unsigned integer is its code.
  std::string function = info(elem).kind == ElemKind::UInt ? "" : "tw_" + to_string(elem);
  std::string value = fmt::format("{}({})", function, code_text(n, lane));
  // Without a read the value is 0, which code 0 of some types does not stand for.
  if (!n.predicate.defined() || loaded_.count(&n) != 0) return value;
  return fmt::format("({} ? {} : 0)", text(n.predicate, lane), value);
}

void CudaExpr::code_store(const StoreNode& n, Lines& lines) {
  const ElemType elem = n.buffer->elem;
  const int bits = bits_of(elem);
  auto* load = n.value.as<LoadNode>();
  if (!load || load->type.elem != elem) {
    throw LoweringError(
        fmt::format("values become elements of type {} in '{}'; GPU kernels only "
                    "copy these",
                    to_string(elem), n.buffer->name));
  }
  if (bits < 8 && !is_private(n.buffer)) {
    throw LoweringError(
        fmt::format("elements of '{}' share bytes that several threads would write; "
                    "copy whole bytes at once",
                    n.buffer->name));
  }
  lines.clear();
  open_loads(n.value, lines);
  for (int l = 0; l < n.value.type().lanes; ++l) {
    Expr index = n.indices[0].type().is_scalar() ? n.indices[0] : lane_of(n.indices[0], l);
    std::string to = element(n.buffer, index), code = code_text(*load, l);
    if (load->predicate.defined() && loaded_.count(load) == 0) {
      code = fmt::format("({} ? {} : 0)", text(load->predicate, l), code);
    }
    std::string mask = n.predicate.defined() && !uniform(n.predicate).defined()
                           ? fmt::format("if ({}) ", text(n.predicate, l))
                           : "";
    if (bits == 8) {
      lines.push_back(fmt::format("{}{} = {};", mask, to, code));
      continue;
    }
    Expr slot = known_.simplify(floormod(index, Expr(8 / bits)));
    lines.push_back(
        fmt::format("{}tw_put_code<{}>({}, {}, {});", mask, bits, to, print_bare(slot), code));
  }
}

// Lane l of the register is the code that stands 32 / lanes bits behind that of lane l - 1. All of
// them stand in one word of an array in registers.
bool CudaExpr::word_store(const StoreNode& n, Lines& lines) {
  const ElemType to = n.buffer->elem;
  const int lanes = n.value.type().lanes;
  auto* at = n.indices[0].as<RampNode>();
  bool is_register = is_private(n.buffer) && lanes > 1 && lanes * bits_of(to) == kWordBits && at &&
                     is_int(at->stride, 1) &&
                     is_int(known_.simplify(floormod(at->base, Expr(lanes))), 0);
  Codes codes = is_register ? codes_of(n.value) : Codes{};
  if (!codes.load || !is_private(codes.load->buffer)) return false;
  const ElemType from = codes.load->buffer->elem;
  const int bits = bits_of(from);
  auto* place = codes.load->indices[0].as<RampNode>();
  const bool halves = codes.high.defined();
  bool made = from == to || (halves ? has_code_halves(from, to) : has_code_registers(from, to));
  if (!place || bits > 16 || !made) return false;
  const int in_word = kWordBits / bits;
  Expr slot = known_.simplify(floormod(place->base, Expr(in_word)));
  bool in_one_word =
      is_int(place->stride, in_word / lanes) && known_.bounds(slot).max < in_word / lanes;
  if (!in_one_word) return false;
  Expr cond = codes.cond.defined() ? uniform(codes.cond) : make_bool(true);
  Expr high = halves ? uniform(codes.high) : make_bool(true);
  if (!cond.defined() || !high.defined() || (from == to && codes.zero.defined())) return false;
  std::string value = fmt::format("tw_word_at({})",
                                  pointer(codes.load->buffer, known_.simplify(place->base - slot)));
  // All lanes meet for a table lookup, whatever the condition.
  if (halves) {
    const std::string function = fmt::format("tw_{}x{}_{}", to_string(to), lanes, to_string(from));
    const std::string of =
        fmt::format("({}, {})", value, print_bare(known_.simplify(slot * Expr(bits))));
    const std::string word = fresh("word");
    lines.push_back(fmt::format("const unsigned {} = {} ? {}_high{} : {}_low{};", word, print(high),
                                function, of, function, of));
    value = word;
  } else if (from != to) {
    std::string zero = codes.zero.defined() ? print_bare(codes.zero) : "0";
    value = fmt::format("tw_{}x{}_{}({}, {}, {})", to_string(to), lanes, to_string(from), value,
                        print_bare(known_.simplify(slot * Expr(bits))), zero);
    if (is_in_cuda_table(from)) {
      const std::string word = fresh("word");
      lines.push_back(fmt::format("const unsigned {} = {};", word, value));
      value = word;
    }
  }
  if (!is_int(cond, 1)) value = fmt::format("{} ? {} : 0", print(cond), value);
  lines.push_back(fmt::format("tw_put_word({}, {});", pointer(n.buffer, at->base), value));
  return true;
}

}  // namespace tilewright
