// Turns loops that are marked as an intrinsic into one vector operation.
#include <fmt/core.h>

#include "codegen/intrinsics/intrinsics.h"
#include "codegen/lowering.h"
#include "codegen/passes/ranged_mutator.h"

namespace tilewright {
namespace {

class IntrinsicLowerer : public RangedMutator {
 public:
  explicit IntrinsicLowerer(const Target& target) : target_(target) {}

 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    auto note = n.annotations.find("intrinsic");
    if (note != n.annotations.end()) return lowered(n, s, std::get<std::string>(note->second));
    return RangedMutator::mutate_for(n, s);
  }

 private:
  [[noreturn]] static void fail(const ForNode& n, const std::string& name,
                                const std::string& reason) {
    throw LoweringError(
        fmt::format("loop '{}' is marked as intrinsic '{}': {}", n.var.name(), name, reason));
  }

  Stmt lowered(const ForNode& n, const Stmt& s, const std::string& name) {
    const Intrinsic* row = find_intrinsic(name);
    if (!row) fail(n, name, "there is no such row");
    // When the loops were marked, no condition depended on them.
    std::vector<Expr> conditions;
    TensorNest nest;
    Stmt at = s;
    for (;;) {
      if (auto* loop = at.as<ForNode>()) {
        nest.loops.push_back(loop);
        at = loop->body;
      } else if (auto* guard = at.as<IfNode>(); guard && !guard->else_case.defined()) {
        for (const ForNode* loop : nest.loops) {
          if (uses_var(guard->cond, loop->var)) fail(n, name, "a condition depends on its loops");
        }
        conditions.push_back(guard->cond);
        at = guard->then_case;
      } else {
        break;
      }
    }
    auto* store = at.as<StoreNode>();
    if (!store || store->predicate.defined()) fail(n, name, "it holds more than one store");
    nest.buffer = store->buffer;
    nest.indices = store->indices;
    nest.value = store->value;
    auto match = match_tensor(row->semantics(), nest, known_);
    if (auto* reason = std::get_if<std::string>(&match)) fail(n, name, *reason);
    Stmt result = dot(*row, std::get<TensorMatch>(match));
    for (size_t i = conditions.size(); i-- > 0;) result = make_if(conditions[i], result);
    return result;
  }

  Stmt dot(const Intrinsic& row, const TensorMatch& match) {
    std::vector<Buffer> shapes = row.semantics().operands();
    std::vector<Expr> loads;
    for (size_t i = 0; i < match.operands.size(); ++i) {
      const TensorOperand& o = match.operands[i];
      int lanes = static_cast<int>(*num_elements(shapes[i]));
      loads.push_back(load(o.buffer, {lanes == 1 ? o.base : ramp(o.base, 1, lanes)}));
    }
    Type acc = loads[0].type();
    // Another row of the same types may replace it, unless that row is exact for few values only.
    const Intrinsic* used = find_dot(target_, acc, loads[1].type(), loads[2].type());
    if (!used || (used != &row && used->most_of_b != 0)) {
      throw LoweringError(fmt::format("target '{}' has no intrinsic '{}'", target_.name, row.name));
    }
    auto* sum = loads[0].as<LoadNode>();
    return make_store(sum->buffer, sum->indices, call(acc, CallOp::Dot, loads));
  }

  const Target& target_;
};

}  // namespace

Program lower_intrinsics(const Program& program, const Target& target) {
  Program result = program;
  result.body = IntrinsicLowerer(target)(program.body);
  return result;
}

}  // namespace tilewright
