// Reads and writes of buffer elements in generated C.
#include <fmt/format.h>

#include <optional>

#include "codegen/c/c_codes.h"
#include "codegen/c/c_expr.h"
#include "codegen/c/c_packed.h"
#include "codegen/lowering.h"
#include "ir/compare.h"
#include "ir/dot_shape.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

bool packed(ElemType elem) { return bits_of(elem) < 8; }

// The first index of an access to consecutive elements; undefined for other accesses.
Expr start_of(const Expr& index) {
  if (index.type().is_scalar()) return index;
  auto* r = index.as<RampNode>();
  return r && is_int(r->stride, 1) ? r->base : Expr();
}

}  // namespace

std::pair<Expr, int64_t> split_constant(const Expr& index) {
  if (auto value = as_int(index)) return {Expr(0), *value};
  auto* n = index.as<BinaryNode>();
  if (n && (n->op == BinaryOp::Add || n->op == BinaryOp::Sub)) {
    if (auto value = as_int(n->b)) return {n->a, n->op == BinaryOp::Add ? *value : -*value};
  }
  return {index, 0};
}

std::vector<std::string> CExpr::open_pointers(const std::vector<const StoreNode*>& stores) {
  struct Base {
    Buffer buffer;
    Expr start;
    std::set<int64_t> offsets;
  };
  std::vector<Base> bases;
  std::map<std::pair<const BufferNode*, std::string>, size_t> place;
  auto use = [&](const Buffer& b, const Expr& index) {
    Expr start = start_of(index);
    if (!start.defined() || !buffers.at(b.get()).variables.empty() || packed(b->elem)) return;
    auto [base, offset] = split_constant(start);
    if (as_int(base) || base.as<VarNode>()) return;  // already short
    // The stores of this run may change what the index loads, or a condition may guard the load.
    if (reads_memory(base)) return;
    auto [it, added] = place.emplace(std::pair{b.get(), print(base)}, bases.size());
    if (added) bases.push_back({b, base, {}});
    bases[it->second].offsets.insert(offset);
  };
  auto loads = [&](const Expr& e) {
    for_each_expr(e, [&](const Expr& x) {
      if (auto* n = x.as<LoadNode>()) use(n->buffer, n->indices[0]);
    });
  };
  for (const StoreNode* s : stores) {
    use(s->buffer, s->indices[0]);
    loads(s->value);
  }
  std::vector<std::string> declarations;
  std::map<std::pair<const BufferNode*, std::string>, std::string> opened;
  for (const auto& [key, at] : place) {
    const Base& base = bases[at];
    if (base.offsets.size() < 2) continue;
    opened[key] = fresh(buffers.at(key.first).name + "_at");
  }
  for (const Base& base : bases) {  // in the order of first use
    std::string text = print(base.start);
    auto it = opened.find({base.buffer.get(), text});
    if (it == opened.end()) continue;
    const CBuffer& c = buffers.at(base.buffer.get());
    declarations.push_back(
        fmt::format("{}* {} = {} + {};", c.element_type, it->second, c.name, text));
  }
  pointers_ = std::move(opened);
  count_factors(stores);
  return declarations;
}

std::string CExpr::element(const Buffer& b, const Expr& index) {
  const CBuffer& c = buffers.at(b.get());
  if (!c.variables.empty()) {
    auto* r = index.as<RampNode>();
    int64_t base = as_int(r ? r->base : index).value_or(-1);
    return fmt::format("{}_{}", c.name, base);
  }
  if (packed(b->elem)) {  // the byte that holds it
    Expr byte = known_.simplify(floordiv(index, Expr(8 / bits_of(b->elem))));
    return fmt::format("{}[{}]", c.name, print(byte));
  }
  auto [base, offset] = split_constant(index);
  auto pointer = pointers_.empty() ? pointers_.end() : pointers_.find({b.get(), print(base)});
  if (pointer != pointers_.end()) return fmt::format("{}[{}]", pointer->second, offset);
  return fmt::format("{}[{}]", c.name, print(index));
}

// The bits of one element. `scalar` is its index as an expression, where there is one; the access
// can then use an open pointer.
std::string CExpr::stored(const Buffer& b, const std::string& index, const Expr& scalar) {
  const std::string& name = buffers.at(b.get()).name;
  if (packed(b->elem)) {
    return fmt::format("{}({}, {})", prelude_.helper("get", b->elem), name, index);
  }
  return scalar.defined() ? element(b, scalar) : fmt::format("{}[{}]", name, index);
}

std::string CExpr::put(const Buffer& b, const std::string& index, const std::string& bits) {
  return fmt::format("{}({}, {}, {})", prelude_.helper("put", b->elem), buffers.at(b.get()).name,
                     index, bits);
}

// Loads a vector of sub-byte elements through one helper (`suffix` "_f32": as floats). The elements
// are neighbours from a whole byte on, or one element at the same bit position of consecutive
// 32-bit words. "" for other accesses.
std::string CExpr::packed_load(const LoadNode& n, const std::string& suffix) {
  const auto* r = n.indices[0].as<RampNode>();
  const int bits = bits_of(n.type.elem), lanes = n.type.lanes;
  if (!r || n.predicate.defined()) return "";
  const Expr in_byte = floormod(r->base, Expr(8 / bits));
  const bool side_by_side = is_int(r->stride, 1) && lanes * bits % 8 == 0;
  if (side_by_side && is_int(known_.simplify(in_byte), 0)) {
    std::string load = prelude_.helper("load_packed" + suffix, n.type);
    return fmt::format("{}(&{})", load, element(n.buffer, r->base));
  }
  auto words = words_of(n);
  if (!words) return "";
  std::string load = prelude_.helper("load_words" + suffix, n.type);
  return fmt::format("{}(&{}, {})", load, element(n.buffer, words->first), words->second);
}

// Converts codes of at most 8 bits to elements of 8 or 16 bits, in stored form. The codes stand at
// the same bit position of consecutive words, each as wide as an element. "" for others.
std::string CExpr::codes(const CastNode& n) {
  auto* from = n.value.as<LoadNode>();
  auto* r = from ? from->indices[0].as<RampNode>() : nullptr;
  if (!r || from->predicate.defined() || !has_codes(from->type.elem, n.type.elem, n.type.lanes) ||
      !buffers.at(from->buffer.get()).variables.empty()) {
    return "";
  }
  const int bits = bits_of(from->type.elem);
  const int64_t in_word = bits_of(n.type.elem) / bits;
  auto place = as_int(known_.simplify(floormod(r->base, Expr(in_word))));
  if (!is_int(r->stride, in_word) || !place) return "";
  std::string helper = prelude_.helper("codes_" + to_string(n.type.elem), from->type);
  Expr first = known_.simplify(r->base - Expr(*place));
  return fmt::format("{}(&{}, {})", helper, element(from->buffer, first), *place * bits);
}

// The value of a store, in stored form.
std::string CExpr::bits(const StoreNode& n) {
  auto* cast = n.value.as<CastNode>();
  std::string text = cast ? codes(*cast) : "";
  auto* load = n.value.as<LoadNode>();
  if (load && load->type.elem == n.buffer->elem) {
    text = window(*load);
    if (text.empty()) text = neighbours(*load);
    if (text.empty() && narrow(n.buffer->elem)) text = stored_text(*load);
  }
  if (narrow(n.buffer->elem) && text.empty()) text = padded_copy(n);
  if (!text.empty()) return text;
  // Storing rounds to the element's type, so that a cast to it need not.
  const bool rounds = cast && is_float(n.buffer->elem) && narrow(n.buffer->elem) &&
                      cast->type.elem == n.buffer->elem &&
                      cast->value.type().elem == compute_elem(n.buffer->elem);
  return encode(n.buffer->elem, n.value.type().lanes, print(rounds ? cast->value : n.value));
}

namespace {

struct Choice {
  Expr cond, value, otherwise;
};

std::optional<Choice> choice_of(const Expr& e) {
  if (auto* s = e.as<SelectNode>()) return Choice{s->cond, s->on_true, s->on_false};
  auto* call = e.as<CallNode>();
  if (!call || call->op != CallOp::IfThenElse) return std::nullopt;
  return Choice{call->args[0], call->args[1], call->args[2]};
}

// A condition for all lanes as a scalar.
Expr narrowed(const Expr& cond) {
  auto* same = cond.as<BroadcastNode>();
  return same ? same->value : cond;
}

// Both conditions, of which one or both may stand for all lanes.
Expr both(const Expr& a, const Expr& b) {
  if (a.type().is_scalar() == b.type().is_scalar()) return a && b;
  return a.type().is_scalar() ? broadcast(a, b.type().lanes) && b : both(b, a);
}

}  // namespace

// part_or_zeros() of a stored choice that needs no conversion; "" for other values.
std::string CExpr::padded_copy(const StoreNode& n) {
  if (n.value.type().elem != n.buffer->elem) return "";
  const auto choice = choice_of(n.value);
  return choice ? part_or_zeros(choice->cond, choice->value, choice->otherwise) : "";
}

// Neighbours in memory, and zeros before and behind them, in stored form: padding of a copy. "" for other
// choices.
std::string CExpr::part_or_zeros(const Expr& first, const Expr& chosen, const Expr& otherwise) {
  if (!is_zero(otherwise)) return "";
  Expr cond = narrowed(first), value = chosen;
  for (auto inner = choice_of(value); inner; inner = choice_of(value)) {  // padding of padding
    if (!is_zero(inner->otherwise)) return "";
    cond = both(cond, narrowed(inner->cond));
    value = inner->value;
  }
  auto* load = value.as<LoadNode>();
  if (!load || load->type.is_scalar()) return "";
  if (!buffers.at(load->buffer.get()).variables.empty()) return "";
  const int lanes = load->type.lanes;
  const Expr all = ramp(Expr(0), 1, lanes) < broadcast(Expr(lanes), lanes);
  Expr mask = load->predicate;
  if (cond.type().is_scalar()) {  // all of them, or none
    const Expr loaded = mask.defined() ? narrowed(mask) : all;
    mask = loaded.type().is_scalar() ? both(conjunction(loaded, cond), all) : both(cond, loaded);
  } else {  // lanes that the load leaves out are zeros as well
    mask = mask.defined() && !equal(mask, cond) ? both(cond, mask) : cond;
  }
  const auto range = lane_range(mask);
  // Bounds stand before all conditions, which may guard what they read.
  auto* joined = mask.as<BinaryNode>();
  const bool guarded = joined != nullptr && joined->op == BinaryOp::And;
  if (!range || reads_memory(range->first) || (guarded && reads_memory(range->end))) return "";
  return stored_text(*tilewright::load(load->buffer, load->indices, mask).as<LoadNode>());
}

std::string CExpr::head_lanes(const Expr& mask) {
  Expr count = leading_lanes(mask);
  return count.defined() ? print(known_.simplify(count)) : "";
}

// Elements in stored form: neighbours, or one where a variable holds it. "" for other accesses.
std::string CExpr::stored_text(const LoadNode& n) {
  const Expr& index = n.indices[0];
  const CBuffer& c = buffers.at(n.buffer.get());
  if (!c.variables.empty()) return c.as_stored ? element(n.buffer, index) : "";
  auto* r = index.as<RampNode>();
  if (packed(n.type.elem) || !r || !is_int(r->stride, 1)) return "";
  if (std::string name = held(n); !name.empty()) return name;
  const std::string at = fmt::format("&{}", element(n.buffer, r->base));
  if (!n.predicate.defined()) {
    return fmt::format("*(const {}*)({})", prelude_.memory_type(n.type.elem, n.type.lanes), at);
  }
  const auto range = lane_range(n.predicate);
  if (!range) return "";
  const std::string end = print(known_.simplify(range->end));
  if (is_int(range->first, 0)) {
    return fmt::format("{}({}, {})", prelude_.helper("load_head", n.type), at, end);
  }
  return fmt::format("{}({}, {}, {})", prelude_.helper("load_part", n.type), at,
                     print(known_.simplify(range->first)), end);
}

std::string CExpr::load_text(const LoadNode& n) {
  const Expr& index = n.indices[0];
  ElemType elem = n.type.elem;
  int lanes = n.type.lanes;
  if (std::string text = stored_text(n); !text.empty()) return decode(elem, lanes, text);
  if (!buffers.at(n.buffer.get()).variables.empty()) return element(n.buffer, index);
  if (index.type().is_scalar()) {
    std::string value = decode(elem, 1, stored(n.buffer, print(index), index));
    if (n.predicate.defined() && n.predicate.type().is_scalar()) {
      value = fmt::format("({} ? {} : 0)", print(n.predicate), value);
    }
    return lanes == 1 ? value : splat(value, n.type);
  }
  if (packed(elem)) {
    std::string vector = packed_load(n, "");
    if (!vector.empty()) return vector;
  }
  if (std::string vector = table_load(n); !vector.empty()) return vector;
  if (std::string vector = window(n); !vector.empty()) return decode(elem, lanes, vector);
  if (std::string vector = every_second(n); !vector.empty()) return decode(elem, lanes, vector);
  std::vector<std::string> items;
  for (int i = 0; i < lanes; ++i) {
    std::string value = decode(elem, 1, stored(n.buffer, lane(index, i)));
    if (n.predicate.defined()) {
      value = fmt::format("({} ? {} : 0)", lane(n.predicate, i), value);
    }
    items.push_back(value);
  }
  return lanes_of(items, n.type);
}

// Both operands must be loads of consecutive elements; they are passed by address. An operand with
// its own terms of k per lane may be held in variables, and is then passed by value.
std::string CExpr::dot_text(const CallNode& n) {
  const Type a = n.args[1].type(), b = n.args[2].type();
  auto by_value = [&](size_t i) {
    auto* load = n.args[i].as<LoadNode>();
    return load && (!buffers.at(load->buffer.get()).variables.empty() || !held(*load).empty());
  };
  const bool each = DotShape::of(n.type, a, b)->each;
  const bool values[] = {each && by_value(1), by_value(2)};
  std::string text =
      fmt::format("{}({}", prelude_.dot(n.type, a, b, values[0], values[1]), print(n.args[0]));
  for (size_t i : {1, 2}) text += ", " + operand_address(n.args[i], values[i - 1]);
  return text + ")";
}

// The address of the first of the neighbours that an operand of dot loads, or its variable.
std::string CExpr::operand_address(const Expr& operand, bool by_value) {
  auto* load = operand.as<LoadNode>();
  Expr start = load && !load->predicate.defined() ? start_of(load->indices[0]) : Expr();
  if (!start.defined()) throw LoweringError("an operand of dot is no load of neighbours");
  if (std::string name = by_value ? held(*load) : ""; !name.empty()) return name;
  return (by_value ? "" : "&") + element(load->buffer, start);
}

std::string CExpr::tile_register(const Buffer& b, const Expr& index) {
  const std::map<int64_t, int>& variables = buffers.at(b.get()).variables;
  auto at = variables.find(as_int(start_of(index)).value_or(-1));
  TW_ASSERT(at != variables.end(), "an access of tile registers at another place");
  return std::to_string(std::distance(variables.begin(), at));
}

// A store to a tile register or out of one; "" for others. See fit_tile_registers().
std::string CExpr::tile_text(const StoreNode& n) {
  auto* from = n.value.as<LoadNode>();
  if (from && buffers.at(from->buffer.get()).tiles) {
    return fmt::format("tw_tile_store({}, &{})", tile_register(from->buffer, from->indices[0]),
                       element(n.buffer, start_of(n.indices[0])));
  }
  if (!buffers.at(n.buffer.get()).tiles) return "";
  const std::string at = tile_register(n.buffer, n.indices[0]);
  if (from) {
    return fmt::format("tw_tile_load({}, &{})", at,
                       element(from->buffer, start_of(from->indices[0])));
  }
  if (n.value.as<BroadcastNode>()) return fmt::format("tw_tile_zero({})", at);
  return tile_product(at, *n.value.as<CallNode>());
}

std::string CExpr::tile_product(const std::string& sum, const CallNode& n) {
  std::string text;
  int registers[] = {-1, -1};
  for (size_t i : {0, 1}) {
    const std::string address = operand_address(n.args[i + 1], false);
    const auto [at, held] = tile_operands_.take(address, registers[0]);
    registers[i] = at;
    if (!held) text += fmt::format("tw_tile_load({}, {}); ", at, address);
  }
  return text + fmt::format("tw_tile_multiply({}, {}, {}, {})",
                            prelude_.tile_operation(n.type, n.args[1].type(), n.args[2].type()),
                            sum, registers[0], registers[1]);
}

std::string CExpr::store(const StoreNode& n) {
  const Expr& index = n.indices[0];
  ElemType elem = n.buffer->elem;
  int lanes = n.value.type().lanes;
  const CBuffer& c = buffers.at(n.buffer.get());
  if (std::string text = tile_text(n); !text.empty()) return text;
  tile_operands_.forget();  // this store may change an operand
  if (!c.variables.empty() && c.as_stored && !n.predicate.defined()) {
    return fmt::format("{} = {}", element(n.buffer, index), bits(n));
  }
  std::string value = print(n.value);
  if (!c.variables.empty()) {
    std::string name = element(n.buffer, index);
    if (c.as_stored) throw LoweringError("an operand of dot is stored under a condition");
    if (!n.predicate.defined()) return fmt::format("{} = {}", name, value);
    std::string mask = print(n.predicate);
    if (n.predicate.type().is_scalar()) return fmt::format("if ({}) {} = {}", mask, name, value);
    std::string select = prelude_.helper("select", Type(compute_elem(elem), lanes));
    return fmt::format("{} = {}({}, {}, {})", name, select, mask, value, name);
  }
  if (lanes == 1) {
    std::string bits = encode(elem, 1, value);
    std::string text = packed(elem) ? put(n.buffer, print(index), bits)
                                    : fmt::format("{} = {}", element(n.buffer, index), bits);
    return n.predicate.defined() ? fmt::format("if ({}) {}", print(n.predicate), text) : text;
  }
  auto* r = index.as<RampNode>();
  if (r && is_int(r->stride, 1) && !packed(elem)) {
    std::string at = fmt::format("&{}", element(n.buffer, r->base));
    std::string memory = prelude_.memory_type(elem, lanes);
    std::string bits = this->bits(n);
    if (!n.predicate.defined()) return fmt::format("*({}*)({}) = {}", memory, at, bits);
    std::string head = head_lanes(n.predicate);
    if (!head.empty()) {
      std::string fn = prelude_.helper("store_head", Type(elem, lanes));
      return fmt::format("{}({}, {}, {})", fn, at, bits, head);
    }
  }
  std::string temp = fresh("v");
  std::string text =
      fmt::format("{{ {} {} = {};", prelude_.value_type(n.value.type()), temp, value);
  std::string mask;
  if (n.predicate.defined()) {
    mask = fresh("m");
    text += fmt::format(" {} {} = {};", prelude_.value_type(n.predicate.type()), mask,
                        print(n.predicate));
  }
  for (int i = 0; i < lanes; ++i) {
    if (!mask.empty()) text += fmt::format(" if ({}[{}])", mask, i);
    std::string bits = encode(elem, 1, fmt::format("{}[{}]", temp, i)), at = lane(index, i);
    text += " " +
            (packed(elem) ? put(n.buffer, at, bits) : fmt::format("{}[{}] = {}", c.name, at, bits));
    text += ";";
  }
  return text + " }";
}

}  // namespace tilewright
