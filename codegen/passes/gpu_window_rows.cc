// Loops along the rows of a gathered tile run over the numbers that these rows have in the whole.
#include "codegen/cuda_lowering.h"
#include "codegen/cuda_tensor_copy.h"
#include "codegen/cuda_window_copy.h"
#include "ir/simplify.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

// Whether some index of what is loaded is made of digits of a number with this variable.
bool loads_by_digits(const Expr& value, const Var& var) {
  bool found = false;
  for_each_expr(value, [&](const Expr& e) {
    auto* n = e.as<LoadNode>();
    for (size_t d = 0; n && d < n->indices.size(); ++d) found |= runs_by_digits(n->indices[d], var);
  });
  return found;
}

class WindowRows : public Mutator {
 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    if (!is_tensor_copy(n)) return Mutator::mutate_for(n, s);
    std::vector<const ForNode*> loops;
    Stmt at = s;
    for (auto* loop = at.as<ForNode>(); loop; loop = at.as<ForNode>()) {
      loops.push_back(loop);
      at = loop->body;
    }
    Stmt inner = at;
    while (auto* branch = inner.as<IfNode>()) inner = branch->then_case;
    auto* store = inner.as<StoreNode>();
    if (!store || store->buffer->scope != Scope::Shared || store->indices.size() < 2) return s;
    const Expr row = store->indices[store->indices.size() - 2];
    for (size_t l = loops.size(); l-- > 0;) {
      const ForNode& loop = *loops[l];
      const Expr first = simplify(row - loop.var);
      // Loops in it are not known where it begins.
      const bool is_outside =
          std::none_of(loops.begin() + static_cast<std::ptrdiff_t>(l), loops.end(),
                       [&](const ForNode* inner) { return uses_var(first, inner->var); });
      const bool is_row = uses_var(row, loop.var) && is_outside && is_int(loop.min, 0) &&
                          loads_by_digits(store->value, loop.var);
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
  Program result = program;
  result.body = WindowRows()(program.body);
  return result;
}

}  // namespace tilewright
