#include "tuner/cpu/value_facts.h"

#include <bit>

namespace tilewright {
namespace {

uint64_t mixed_with(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2))) * 0xbf58476d1ce4e5b9ULL;
  return x ^ (x >> 29);
}

void take(ValueFacts& f, const ValueFacts& part) {
  f.loops |= part.loops;
  f.unrolled |= part.unrolled;
}

}  // namespace

uint64_t ValueFacts::identity() const { return mixed_with(hash, static_cast<uint64_t>(constant)); }

uint64_t ValueTable::mixed(const void* p) { return mixed_with(17, std::bit_cast<uint64_t>(p)); }

ValueFacts ValueTable::joined(uint64_t tag, std::initializer_list<Expr> parts) {
  ValueFacts f{tag};
  for (const Expr& part : parts) {
    const ValueFacts p = of(part);
    f.hash = mixed_with(f.hash, p.identity());
    take(f, p);
  }
  return f;
}

ValueFacts ValueTable::of(const Expr& e) {
  if (!e.defined()) return {};
  if (auto known = known_.find(e.get()); known != known_.end()) return known->second.second;
  const ValueFacts f = e.type() == Type(ElemType::index) ? of_index(e) : of_node(e);
  if (!f.unrolled) known_.emplace(e.get(), std::pair(e, f));
  return f;
}

ValueFacts ValueTable::of_index(const Expr& e) {
  if (auto value = as_int(e)) return {0, *value};
  auto* n = e.as<BinaryNode>();
  const bool is_sum = n && (n->op == BinaryOp::Add || n->op == BinaryOp::Sub);
  const bool is_product = n && n->op == BinaryOp::Mul;
  if (!is_sum && !is_product) return of_node(e);
  const ValueFacts a = of(n->a), b = of(n->b);
  ValueFacts f;
  take(f, a);
  take(f, b);
  if (is_sum) {
    const bool adds = n->op == BinaryOp::Add;
    f.hash = adds ? a.hash + b.hash : a.hash - b.hash;
    f.constant = adds ? a.constant + b.constant : a.constant - b.constant;
  } else if (b.hash == 0 || a.hash == 0) {
    const ValueFacts &form = b.hash == 0 ? a : b, &factor = b.hash == 0 ? b : a;
    f.hash = form.hash * static_cast<uint64_t>(factor.constant);
    f.constant = form.constant * factor.constant;
  } else {
    f.hash = mixed_with(a.identity() + b.identity(), 3);
  }
  return f;
}

ValueFacts ValueTable::of_node(const Expr& e) {
  const uint64_t tag =
      mixed_with(static_cast<uint64_t>(e.kind()) * 64 + static_cast<uint64_t>(e.type().elem),
                 static_cast<uint64_t>(e.type().lanes));
  auto op = [&](auto value) { return mixed_with(tag, static_cast<uint64_t>(value)); };
  switch (e.kind()) {
    case ExprKind::IntImm: return {op(e.as<IntImmNode>()->value)};
    case ExprKind::FloatImm:
      return {mixed_with(tag, std::bit_cast<uint64_t>(e.as<FloatImmNode>()->value))};
    case ExprKind::Var: {
      auto known = variables_.find(e.get());
      return known != variables_.end() ? known->second : ValueFacts{mixed(e.get())};
    }
    case ExprKind::Cast: return joined(tag, {e.as<CastNode>()->value});
    case ExprKind::Unary: return joined(op(e.as<UnaryNode>()->op), {e.as<UnaryNode>()->a});
    case ExprKind::Binary:
      return joined(op(e.as<BinaryNode>()->op), {e.as<BinaryNode>()->a, e.as<BinaryNode>()->b});
    case ExprKind::Select: {
      auto* n = e.as<SelectNode>();
      return joined(tag, {n->cond, n->on_true, n->on_false});
    }
    case ExprKind::Load: {
      auto* n = e.as<LoadNode>();
      ValueFacts f =
          joined(mixed_with(tag, mixed(n->buffer.get())), {n->indices.back(), n->predicate});
      if (apart_.count(n->buffer.get()) != 0) f.loops = ~uint64_t{0};
      return f;
    }
    case ExprKind::Ramp: return joined(tag, {e.as<RampNode>()->base, e.as<RampNode>()->stride});
    case ExprKind::Broadcast: return joined(tag, {e.as<BroadcastNode>()->value});
    case ExprKind::Call: {
      auto* n = e.as<CallNode>();
      ValueFacts f{op(n->op)};
      for (const Expr& a : n->args) {
        const ValueFacts part = of(a);
        f.hash = mixed_with(f.hash, part.identity());
        take(f, part);
      }
      return f;
    }
  }
  return {tag};
}

uint64_t ValueTable::place(const Buffer& buffer, const Expr& index) {
  return mixed_with(mixed(buffer.get()), of(index).identity());
}

}  // namespace tilewright
