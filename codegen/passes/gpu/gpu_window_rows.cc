// Renumbers loops along the rows of a gathered (im2col) or scattered tile: they run over the
// numbers that these rows have in the whole.
#include <algorithm>

#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda/cuda_window_copy.h"
#include "codegen/cuda_lowering.h"
#include "codegen/loop_nest.h"
#include "codegen/statements.h"
#include "ir/arith/simplify.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

bool have_digits(const std::vector<Expr>& indices, const Var& var) {
  return std::any_of(indices.begin(), indices.end(),
                     [&](const Expr& index) { return runs_by_digits(index, var); });
}

// Whether some index of the load, or of the place where it is stored, is made of digits of a number
// with this variable.
bool copies_by_digits(const StoreNode& copy, const Var& var) {
  bool found = have_digits(copy.indices, var);
  for_each_expr(copy.value, [&](const Expr& e) {
    auto* n = e.as<LoadNode>();
    found |= n && have_digits(n->indices, var);
  });
  return found;
}

// The indices in shared memory, of a copy to it or from it; null where there are none.
const std::vector<Expr>* shared_indices(const StoreNode& copy) {
  auto* read = copy.value.as<LoadNode>();
  if (copy.buffer->scope == Scope::Shared) return &copy.indices;
  return read && read->buffer->scope == Scope::Shared ? &read->indices : nullptr;
}

class WindowRows : public Mutator {
 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    if (!is_tensor_copy(n)) return Mutator::mutate_for(n, s);
    const LoopNest nest = loop_nest(n);
    const std::vector<const ForNode*>& loops = nest.loops;
    Stmt at = nest.body;
    Stmt inner = at;
    while (auto* branch = inner.as<IfNode>()) inner = branch->then_case;
    auto* store = inner.as<StoreNode>();
    const std::vector<Expr>* shared = store ? shared_indices(*store) : nullptr;
    if (!shared || shared->size() < 2) return s;
    const Expr row = (*shared)[shared->size() - 2];
    for (size_t l = loops.size(); l-- > 0;) {
      const ForNode& loop = *loops[l];
      const Expr first = simplify(row - loop.var);
      // The variables of inner loops are not known where this loop begins.
      const bool is_outside =
          std::none_of(loops.begin() + static_cast<std::ptrdiff_t>(l), loops.end(),
                       [&](const ForNode* inner) { return uses_var(first, inner->var); });
      const bool is_row = uses_var(row, loop.var) && is_outside && is_int(loop.min, 0) &&
                          copies_by_digits(*store, loop.var);
      if (!is_row) {
        at = make_for(loop.var, loop.min, loop.extent, loop.for_kind, at, loop.annotations);
        continue;
      }
      const Var number(loop.var.name());
      at = substitute(at, VarMap{{loop.var.get(), number - first}});
      at = make_for(number, first, loop.extent, loop.for_kind, at, loop.annotations);
    }
    return at;
  }
};

}  // namespace

Program number_window_rows(const Program& program) {
  return with_body(program, WindowRows()(program.body));
}

}  // namespace tilewright
