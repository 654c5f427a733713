#include "codegen/loop_nest.h"

#include "ir/visitor.h"

namespace tilewright {

LoopNest loop_nest(const ForNode& loop) {
  LoopNest nest;
  for (const ForNode* at = &loop; at; at = nest.body.as<ForNode>()) {
    nest.loops.push_back(at);
    nest.body = at->body;
  }
  return nest;
}

Expr in_iteration(const Expr& e, const ForNode& loop, int64_t turn) {
  return substitute(e, VarMap{{loop.var.get(), loop.min + Expr(turn)}});
}

std::optional<int64_t> step_along(const Expr& index, const ForNode& loop, Analyzer& known) {
  const int64_t last = *as_int(loop.extent) - 1;
  if (last == 0 || !uses_var(index, loop.var)) return 0;
  const Expr first = in_iteration(index, loop, 0);
  const auto one = as_int(known.simplify(in_iteration(index, loop, 1) - first));
  const auto all = as_int(known.simplify(in_iteration(index, loop, last) - first));
  return one && all && *all == last * *one ? one : std::nullopt;
}

Expr flat_index(const Buffer& buffer, const std::vector<Expr>& indices) {
  Expr flat = 0;
  for (size_t d = 0; d < indices.size(); ++d) flat = flat * buffer->shape[d] + indices[d];
  return flat;
}

}  // namespace tilewright
