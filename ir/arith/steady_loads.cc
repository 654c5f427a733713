#include "ir/arith/steady_loads.h"

#include "ir/compare.h"
#include "ir/type.h"

namespace tilewright {

Expr SteadyLoads::mutate_cast(const CastNode& n, const Expr& e) {
  auto* read = n.value.as<LoadNode>();
  const bool is_steady =
      read && n.type == Type(ElemType::index) && keeps_(read->buffer) && !varies(e);
  if (!is_steady) return Mutator::mutate_cast(n, e);
  for (const auto& [value, var] : named_) {
    if (equal(value, e)) return var;
  }
  Var var(read->buffer->name);
  values_[var.get()] = e;
  named_.emplace_back(e, var);
  return var;
}

bool SteadyLoads::varies(const Expr& e) const {
  bool found = false;
  for_each_expr(e, [&](const Expr& x) { found |= loops_.contains(x.get()); });
  return found;
}

}  // namespace tilewright
