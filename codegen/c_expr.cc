#include "codegen/c_expr.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>

#include "codegen/lowering.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

std::string join(const std::vector<std::string>& items) {
  return fmt::format("{}", fmt::join(items, ", "));
}

bool narrow_float(ElemType elem) { return is_float(elem) && bits_of(elem) < 32; }

std::string float_literal(double value, bool f64) {
  std::string suffix = f64 ? "" : "f";
  if (std::isnan(value)) return "__builtin_nan" + suffix + "(\"\")";
  if (std::isinf(value)) return (value < 0 ? "-__builtin_inf" : "__builtin_inf") + suffix + "()";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return (value < 0 ? "(" + text : text) + suffix + (value < 0 ? ")" : "");
}

}  // namespace

std::string CExpr::fresh(const std::string& wanted) {
  std::string base;
  for (char c : wanted) base += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (base.empty() || std::isdigit(static_cast<unsigned char>(base[0]))) base = "v" + base;
  std::string name = base;
  for (int i = 1; !used_.insert(name).second; ++i) name = fmt::format("{}_{}", base, i);
  return name;
}

std::string CExpr::bind(const Expr& var, const std::string& wanted) {
  return vars_[var.get()] = fresh(wanted);
}

std::string CExpr::lanes_of(const std::vector<std::string>& items, Type type) {
  return fmt::format("({}){{{}}}", prelude_.value_type(type), join(items));
}

std::string CExpr::splat(const std::string& scalar, Type type) {
  std::string vector = prelude_.value_type(type);
  if (scalar == "0" || scalar == "0.0f" || scalar == "0.0") return fmt::format("({}){{0}}", vector);
  ElemType elem = type.elem == ElemType::boolean ? ElemType::i32 : compute_elem(type.elem);
  return fmt::format("{}({})", prelude_.helper("splat", Type(elem, type.lanes)), scalar);
}

std::string CExpr::immediate(const Expr& e) {
  if (auto* f = e.as<FloatImmNode>())
    return float_literal(f->value, e.type().elem == ElemType::f64);
  int64_t value = e.as<IntImmNode>()->value;
  if (e.type().elem == ElemType::boolean) return value ? "1" : "0";
  std::string text = value == INT64_MIN ? "(-9223372036854775807LL - 1)" : std::to_string(value);
  return value < 0 && value != INT64_MIN ? "(" + text + ")" : text;
}

std::string CExpr::print(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm: return immediate(e);
    case ExprKind::Var: {
      auto it = vars_.find(e.get());
      TW_ASSERT(it != vars_.end(),
                "a variable is used outside its scope: " + e.as<VarNode>()->name);
      return it->second;
    }
    case ExprKind::Cast: return cast_text(*e.as<CastNode>());
    case ExprKind::Unary: return unary_text(*e.as<UnaryNode>());
    case ExprKind::Binary: return binary_text(*e.as<BinaryNode>());
    case ExprKind::Select: {
      auto* n = e.as<SelectNode>();
      return select_text(n->cond, n->on_true, n->on_false);
    }
    case ExprKind::Load: return load_text(*e.as<LoadNode>());
    case ExprKind::Ramp: {
      std::vector<std::string> items;
      for (int i = 0; i < e.type().lanes; ++i) items.push_back(lane(e, i));
      return lanes_of(items, e.type());
    }
    case ExprKind::Broadcast: {
      auto* n = e.as<BroadcastNode>();
      std::string value = print(n->value);
      if (e.type().elem == ElemType::boolean) value = fmt::format("-({})", value);
      return splat(value, e.type());
    }
    case ExprKind::Call: {
      auto* n = e.as<CallNode>();
      if (n->op == CallOp::IfThenElse) return select_text(n->args[0], n->args[1], n->args[2]);
      if (n->op == CallOp::Dot) return dot_text(*n);
      if (n->op == CallOp::Prefetch) {
        auto* at = n->args[0].as<LoadNode>();
        TW_ASSERT(at, "prefetch takes the element to fetch as a load");
        return fmt::format("__builtin_prefetch(&{}, 0, {})", element(at->buffer, at->indices[0]),
                           print(n->args[1]));
      }
      throw LoweringError(fmt::format("'{}' has no meaning on a CPU", name_of(n->op)));
    }
  }
  return "";
}

namespace {

// Lane i of a vector of indices or booleans as a scalar expression.
Expr lane_of(const Expr& v, int i) {
  if (v.type().is_scalar()) return v;
  if (auto* n = v.as<RampNode>()) return n->base + n->stride * Expr(i);
  if (auto* n = v.as<BroadcastNode>()) return n->value;
  if (auto* n = v.as<BinaryNode>()) return binary(n->op, lane_of(n->a, i), lane_of(n->b, i));
  if (auto* n = v.as<UnaryNode>()) return unary(n->op, lane_of(n->a, i));
  if (auto* n = v.as<CastNode>()) return cast(n->type.with_lanes(1), lane_of(n->value, i));
  if (auto* n = v.as<SelectNode>()) {
    return select(lane_of(n->cond, i), lane_of(n->on_true, i), lane_of(n->on_false, i));
  }
  if (auto* n = v.as<LoadNode>()) {
    Expr mask = n->predicate.defined() ? lane_of(n->predicate, i) : Expr();
    return load(n->buffer, {lane_of(n->indices[0], i)}, mask);
  }
  return {};
}

}  // namespace

// Lane i of a vector expression as a scalar expression's text.
std::string CExpr::lane(const Expr& vector, int i) {
  Expr scalar = lane_of(vector, i);
  if (scalar.defined()) return print(known_.simplify(scalar));
  return fmt::format("({})[{}]", print(vector), i);
}

std::string CExpr::rounded(ElemType elem, int lanes, const std::string& value) {
  if (!narrow_float(elem)) return value;
  return decode(elem, lanes, encode(elem, lanes, value));
}

std::string CExpr::decode(ElemType elem, int lanes, const std::string& memory) {
  if (lanes == 1) {
    if (elem == ElemType::boolean) return memory;
    return narrow_float(elem) ? fmt::format("{}({})", prelude_.helper("from", elem), memory)
                              : memory;
  }
  std::string type = prelude_.value_type(Type(elem, lanes));
  if (!narrow_float(elem)) return fmt::format("({})({})", type, memory);
  if (elem == ElemType::f16) return fmt::format("__builtin_convertvector({}, {})", memory, type);
  if (elem == ElemType::bf16) {
    std::string u32 = prelude_.value_type(Type(ElemType::u32, lanes));
    return fmt::format("({})(__builtin_convertvector({}, {}) << 16)", type, memory, u32);
  }
  std::string name = prelude_.helper("from", elem), temp = fresh("m");
  std::vector<std::string> items;
  for (int i = 0; i < lanes; ++i) items.push_back(fmt::format("{}({}[{}])", name, temp, i));
  return fmt::format("({{ {} {} = {}; {}; }})", prelude_.memory_type(elem, lanes), temp, memory,
                     lanes_of(items, Type(elem, lanes)));
}

std::string CExpr::encode(ElemType elem, int lanes, const std::string& value) {
  if (lanes == 1) {
    if (narrow_float(elem)) return fmt::format("{}({})", prelude_.helper("to", elem), value);
    return value;
  }
  std::string memory = prelude_.memory_type(elem, lanes);
  if (elem == ElemType::boolean) {
    return fmt::format("__builtin_convertvector(-({}), {})", value, memory);
  }
  if (!narrow_float(elem)) return fmt::format("({})({})", memory, value);
  if (elem == ElemType::f16) return fmt::format("__builtin_convertvector({}, {})", value, memory);
  if (elem == ElemType::bf16) {
    return fmt::format("{}({})", prelude_.helper("to", Type(elem, lanes)), value);
  }
  std::string name = prelude_.helper("to", elem), temp = fresh("v");
  std::vector<std::string> items;
  for (int i = 0; i < lanes; ++i) items.push_back(fmt::format("{}({}[{}])", name, temp, i));
  return fmt::format("({{ {} {} = {}; ({}){{{}}}; }})", prelude_.value_type(Type(elem, lanes)),
                     temp, value, memory, join(items));
}

std::string CExpr::cast_text(const CastNode& n) {
  ElemType from = n.value.type().elem, to = n.type.elem;
  int lanes = n.type.lanes;
  std::string value = print(n.value);
  if (from == ElemType::boolean && lanes > 1) value = fmt::format("(-({}))", value);
  bool same = compute_elem(from) == compute_elem(to);
  if (to == ElemType::boolean) {
    return lanes == 1 ? fmt::format("(({}) != 0)", value)
                      : fmt::format("__builtin_convertvector(({}) != 0, {})", value,
                                    prelude_.value_type(n.type));
  }
  std::string converted = same         ? value
                          : lanes == 1 ? fmt::format("({})({})", prelude_.value_type(n.type), value)
                                       : fmt::format("__builtin_convertvector({}, {})", value,
                                                     prelude_.value_type(n.type));
  // A narrower float rounds; a wider one holds every value of the narrower.
  return from == to ? converted : rounded(to, lanes, converted);
}

std::string CExpr::unary_text(const UnaryNode& n) {
  std::string a = print(n.a);
  if (n.op == UnaryOp::Neg) return fmt::format("(-{})", a);
  if (n.op == UnaryOp::Not) {
    return n.type.lanes == 1 ? fmt::format("(!{})", a) : fmt::format("(~{})", a);
  }
  ElemType elem = compute_elem(n.type.elem);
  std::string op(name_of(n.op)), text;
  if (n.type.lanes > 1) {
    text = fmt::format("{}({})", prelude_.helper(op, Type(elem, n.type.lanes)), a);
  } else if (n.op == UnaryOp::Abs && !is_float(elem)) {
    std::string t = prelude_.value_type(elem), v = fresh("a");
    text = fmt::format("({{ {} {} = {}; {} < 0 ? -{} : {}; }})", t, v, a, v, v, v);
  } else {
    std::string suffix = elem == ElemType::f64 ? "" : "f";
    if (n.op == UnaryOp::Rsqrt) {
      text = fmt::format("(1 / __builtin_sqrt{}({}))", suffix, a);
    } else {
      if (n.op == UnaryOp::Abs) op = "fabs";
      if (n.op == UnaryOp::Round) op = "rint";
      text = fmt::format("__builtin_{}{}({})", op, suffix, a);
    }
  }
  return rounded(n.type.elem, n.type.lanes, text);
}

std::string CExpr::division(const BinaryNode& n) {
  std::string a = print(n.a), b = print(n.b);
  auto divisor = as_int(n.b);
  Interval range = n.a.type() == Type(ElemType::index) ? known_.bounds(n.a) : Interval{};
  bool plain = divisor && *divisor > 0 && range.min != Interval::kNegInf && range.min >= 0;
  if (info(n.type.elem).kind == ElemKind::UInt) plain = n.type.lanes == 1;
  if (plain) return fmt::format("({} {} {})", a, n.op == BinaryOp::FloorDiv ? "/" : "%", b);
  return fmt::format("{}({}, {})", prelude_.helper(std::string(name_of(n.op)), n.type), a, b);
}

std::string CExpr::binary_text(const BinaryNode& n) {
  ElemType elem = compute_elem(n.a.type().elem);
  int lanes = n.type.lanes;
  std::string text;
  switch (n.op) {
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod: return division(n);
    case BinaryOp::Min:
    case BinaryOp::Max:
      return fmt::format("{}({}, {})", prelude_.helper(std::string(name_of(n.op)), {elem, lanes}),
                         print(n.a), print(n.b));
    case BinaryOp::And:
    case BinaryOp::Or: {
      std::string op(name_of(n.op));
      return fmt::format("({} {} {})", print(n.a), lanes == 1 ? op : op.substr(1), print(n.b));
    }
    default: text = fmt::format("({} {} {})", print(n.a), name_of(n.op), print(n.b));
  }
  if (n.type.elem == ElemType::boolean) {
    bool wide = lanes > 1 && bits_of(elem) != 32 && elem != ElemType::boolean;
    return wide ? fmt::format("__builtin_convertvector({}, {})", text, prelude_.value_type(n.type))
                : text;
  }
  // C promotes small integers to int: bring a scalar back to its type.
  if (lanes == 1 && !is_float(elem) && bits_of(elem) < 32) {
    text = fmt::format("({})({})", prelude_.value_type(elem), text);
  }
  return rounded(n.type.elem, lanes, text);
}

std::string CExpr::select_text(const Expr& cond, const Expr& t, const Expr& f) {
  std::string a = print(t), b = print(f), c = print(cond);
  if (cond.type().is_scalar()) return fmt::format("({} ? {} : {})", c, a, b);
  Type type(compute_elem(t.type().elem), t.type().lanes);
  if (type.elem == ElemType::boolean) type.elem = ElemType::i32;
  return fmt::format("{}({}, {}, {})", prelude_.helper("select", type), c, a, b);
}

namespace {

// The index without its constant, and the constant.
std::pair<Expr, int64_t> split_constant(const Expr& index) {
  if (auto value = as_int(index)) return {Expr(0), *value};
  auto* n = index.as<BinaryNode>();
  if (n && (n->op == BinaryOp::Add || n->op == BinaryOp::Sub)) {
    if (auto value = as_int(n->b)) return {n->a, n->op == BinaryOp::Add ? *value : -*value};
  }
  return {index, 0};
}

// Where an access of consecutive elements begins; nothing for others.
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
    if (!start.defined() || !buffers.at(b.get()).variables.empty()) return;
    auto [base, offset] = split_constant(start);
    if (as_int(base) || base.as<VarNode>()) return;  // short as it is
    // What the index loads may be stored by this very run, or guarded by a condition.
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
  return declarations;
}

std::string CExpr::element(const Buffer& b, const Expr& index) {
  const CBuffer& c = buffers.at(b.get());
  if (!c.variables.empty()) {
    auto* r = index.as<RampNode>();
    int64_t base = as_int(r ? r->base : index).value_or(-1);
    return fmt::format("{}_{}", c.name, base);
  }
  auto [base, offset] = split_constant(index);
  auto pointer = pointers_.empty() ? pointers_.end() : pointers_.find({b.get(), print(base)});
  if (pointer != pointers_.end()) return fmt::format("{}[{}]", pointer->second, offset);
  return fmt::format("{}[{}]", c.name, print(index));
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
  if (!c.variables.empty()) return element(n.buffer, index);
  if (index.type().is_scalar()) {
    std::string value = decode(elem, 1, element(n.buffer, index));
    if (n.predicate.defined() && n.predicate.type().is_scalar()) {
      value = fmt::format("({} ? {} : 0)", print(n.predicate), value);
    }
    return lanes == 1 ? value : splat(value, n.type);
  }
  auto* r = index.as<RampNode>();
  if (r && is_int(r->stride, 1)) {
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
  std::vector<std::string> items;
  for (int i = 0; i < lanes; ++i) {
    std::string value = decode(elem, 1, fmt::format("{}[{}]", c.name, lane(index, i)));
    if (n.predicate.defined()) {
      value = fmt::format("({} ? {} : 0)", lane(n.predicate, i), value);
    }
    items.push_back(value);
  }
  return lanes_of(items, n.type);
}

// The operands are taken as they lie in memory, so both must be loads of neighbours there.
std::string CExpr::dot_text(const CallNode& n) {
  std::string text = fmt::format("{}({}", prelude_.dot(n.type, n.args[1].type(), n.args[2].type()),
                                 print(n.args[0]));
  for (size_t i : {1, 2}) {
    auto* load = n.args[i].as<LoadNode>();
    Expr start = load && !load->predicate.defined() ? start_of(load->indices[0]) : Expr();
    if (!start.defined()) throw LoweringError("an operand of dot is no load of neighbours");
    text += fmt::format(", &{}", element(load->buffer, start));
  }
  return text + ")";
}

std::string CExpr::store(const StoreNode& n) {
  const Expr& index = n.indices[0];
  ElemType elem = n.buffer->elem;
  int lanes = n.value.type().lanes;
  const CBuffer& c = buffers.at(n.buffer.get());
  std::string value = print(n.value);
  if (!c.variables.empty()) {
    std::string name = element(n.buffer, index);
    if (!n.predicate.defined()) return fmt::format("{} = {}", name, value);
    std::string mask = print(n.predicate);
    if (n.predicate.type().is_scalar()) return fmt::format("if ({}) {} = {}", mask, name, value);
    std::string select = prelude_.helper("select", Type(compute_elem(elem), lanes));
    return fmt::format("{} = {}({}, {}, {})", name, select, mask, value, name);
  }
  if (lanes == 1) {
    std::string text = fmt::format("{} = {}", element(n.buffer, index), encode(elem, 1, value));
    return n.predicate.defined() ? fmt::format("if ({}) {}", print(n.predicate), text) : text;
  }
  auto* r = index.as<RampNode>();
  if (r && is_int(r->stride, 1)) {
    std::string at = fmt::format("&{}", element(n.buffer, r->base));
    std::string memory = prelude_.memory_type(elem, lanes);
    std::string bits = encode(elem, lanes, value);
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
    text += fmt::format(" {}[{}] = {};", c.name, lane(index, i),
                        encode(elem, 1, fmt::format("{}[{}]", temp, i)));
  }
  return text + " }";
}

}  // namespace tilewright
