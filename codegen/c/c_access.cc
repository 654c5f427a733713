// Reads and writes of buffer elements in generated C.
#include <fmt/format.h>

#include "codegen/c/c_codes.h"
#include "codegen/c/c_expr.h"
#include "codegen/c/c_packed.h"
#include "codegen/lowering.h"
#include "ir/dot_shape.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

bool packed(ElemType elem) { return bits_of(elem) < 8; }

// Splits an index into its variable part and its constant offset.
std::pair<Expr, int64_t> split_constant(const Expr& index) {
  if (auto value = as_int(index)) return {Expr(0), *value};
  auto* n = index.as<BinaryNode>();
  if (n && (n->op == BinaryOp::Add || n->op == BinaryOp::Sub)) {
    if (auto value = as_int(n->b)) return {n->a, n->op == BinaryOp::Add ? *value : -*value};
  }
  return {index, 0};
}

// The first index of an access to consecutive elements; undefined for other accesses.
Expr start_of(const Expr& index) {
  if (index.type().is_scalar()) return index;
  auto* r = index.as<RampNode>();
  return r && is_int(r->stride, 1) ? r->base : Expr();
}

}  // namespace

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
  }
  if (!text.empty()) return text;
  return encode(n.buffer->elem, n.value.type().lanes, print(n.value));
}

std::string CExpr::head_lanes(const Expr& mask) {
  Expr count = leading_lanes(mask);
  return count.defined() ? print(known_.simplify(count)) : "";
}

std::string CExpr::load_text(const LoadNode& n) {
  const Expr& index = n.indices[0];
  ElemType elem = n.type.elem;
  int lanes = n.type.lanes;
  const CBuffer& c = buffers.at(n.buffer.get());
  if (!c.variables.empty()) {
    std::string name = element(n.buffer, index);
    return c.as_stored ? decode(elem, lanes, name) : name;
  }
  if (index.type().is_scalar()) {
    std::string value = decode(elem, 1, stored(n.buffer, print(index), index));
    if (n.predicate.defined() && n.predicate.type().is_scalar()) {
      value = fmt::format("({} ? {} : 0)", print(n.predicate), value);
    }
    return lanes == 1 ? value : splat(value, n.type);
  }
  auto* r = index.as<RampNode>();
  if (packed(elem)) {
    std::string vector = packed_load(n, "");
    if (!vector.empty()) return vector;
  } else if (r && is_int(r->stride, 1)) {
    std::string at = fmt::format("&{}", element(n.buffer, r->base));
    std::string memory = prelude_.memory_type(elem, lanes);
    if (!n.predicate.defined()) {
      return decode(elem, lanes, fmt::format("*(const {}*)({})", memory, at));
    }
    std::string head = head_lanes(n.predicate);
    if (!head.empty()) {
      std::string fn = prelude_.helper("load_head", Type(elem, lanes));
      return decode(elem, lanes, fmt::format("{}({}, {})", fn, at, head));
    }
  }
  if (std::string vector = table_load(n); !vector.empty()) return vector;
  if (std::string vector = window(n); !vector.empty()) return decode(elem, lanes, vector);
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
    return load && !buffers.at(load->buffer.get()).variables.empty();
  };
  const bool each = DotShape::of(n.type, a, b)->each;
  const bool values[] = {each && by_value(1), by_value(2)};
  std::string text =
      fmt::format("{}({}", prelude_.dot(n.type, a, b, values[0], values[1]), print(n.args[0]));
  for (size_t i : {1, 2}) {
    auto* load = n.args[i].as<LoadNode>();
    Expr start = load && !load->predicate.defined() ? start_of(load->indices[0]) : Expr();
    if (!start.defined()) throw LoweringError("an operand of dot is no load of neighbours");
    text += fmt::format(", {}{}", values[i - 1] ? "" : "&", element(load->buffer, start));
  }
  return text + ")";
}

std::string CExpr::store(const StoreNode& n) {
  const Expr& index = n.indices[0];
  ElemType elem = n.buffer->elem;
  int lanes = n.value.type().lanes;
  const CBuffer& c = buffers.at(n.buffer.get());
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
