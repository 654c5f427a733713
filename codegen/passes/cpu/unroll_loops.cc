// Replaces unrolled loops by their iterations.
#include <fmt/core.h>

#include "codegen/lowering.h"
#include "ir/arith/simplify.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

class Unroller : public Mutator {
 public:
  explicit Unroller(int max_statements) : budget_(max_statements) {}

 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    auto extent = as_int(n.extent);
    if (n.for_kind != ForKind::Unrolled || !extent) return Mutator::mutate_for(n, s);
    Stmt body = mutate(n.body);
    int size = 0;
    for_each_stmt(body, [&](const Stmt&) { ++size; });
    if (size * *extent > budget_) {
      throw LoweringError(fmt::format(
          "unrolling loop '{}' of {} iterations makes {} statements; at most {} are allowed",
          n.var.name(), *extent, size * *extent, budget_));
    }
    std::vector<Stmt> copies;
    for (int64_t i = 0; i < *extent; ++i) {
      copies.push_back(
          simplify(substitute(body, VarMap{{n.var.get(), simplify(n.min + Expr(i))}})));
    }
    return make_seq(std::move(copies));
  }

 private:
  int64_t budget_;
};

}  // namespace

Program unroll_loops(const Program& program, int max_statements) {
  Program result = program;
  result.body = Unroller(max_statements)(program.body);
  if (!result.body.defined()) throw LoweringError("the program does nothing");
  return result;
}

}  // namespace tilewright
