// Code under conditions: which statements share branches and values, as skip_zero_terms orders them.
#include <tuple>

#include "ir/predicates.h"
#include "ir/visitor.h"
#include "tuner/cpu/cpu_code.h"

namespace tilewright {

// The condition of a factor that is zero elsewhere, as padding is, for all lanes at once.
Expr CpuCodeCounter::zero_elsewhere(const Expr& factor) {
  if (auto* b = factor.as<BroadcastNode>()) return zero_elsewhere(b->value);
  if (auto* c = factor.as<CastNode>()) return zero_elsewhere(c->value);
  auto* n = factor.as<SelectNode>();
  auto* call = factor.as<CallNode>();
  const bool chooses = call && call->op == CallOp::IfThenElse;
  if (!n && !chooses) return {};
  const Expr cond = n ? n->cond : call->args[0];
  const bool zero = is_zero(n ? n->on_false : call->args[2]);
  return zero && cond.type().is_scalar() && !reads_memory(cond) ? cond : Expr();
}

// A value that was made under a condition is there under that condition alone.
uint64_t CpuCodeCounter::name_of(const ValueFacts& f) const {
  const uint64_t name = f.identity();
  return scope_ == 0 || values_.count(name) != 0 ? name : name ^ scope_;
}

// A hash of the draws in which a condition holds. Conditions that hold in the same draws count as one, as
// simplification makes most of them.
uint64_t CpuCodeCounter::outcomes_of(const Expr& cond) const {
  uint64_t hash = 0;
  for (const IndexValues* v : draws_)
    hash = hash * 0x9e3779b97f4a7c15ULL + (v->at(cond) != 0 ? 2 : 1);
  return hash;
}

// The scope of code where the condition holds, or does not, within the scope at hand.
uint64_t CpuCodeCounter::scope_under(const Expr& cond, bool holds) const {
  return scope_ * 31 + outcomes_of(cond) + (holds ? 1 : 0);
}

void CpuCodeCounter::enter(const Expr& cond, bool holds, double share) {
  outer_.emplace_back(scope_, share_);
  if (share == 1) return;  // it holds in all draws, or counts so
  scope_ = scope_under(cond, holds);
  // Statements of the same conditions stand side by side (skip_zero_terms).
  if (conditions_.insert(scope_).second) {
    passes_.instructions += share_;
    // A condition that changes from one execution to the next is mispredicted at times.
    if (share > 0 && varies(table_.of(cond)))
      passes_.instructions += core_.mispredict * core_.issue / 4;
  }
  share_ *= share;
}

void CpuCodeCounter::leave() {
  std::tie(scope_, share_) = outer_.back();
  outer_.pop_back();
}

// The condition under which a term of a sum is not zero; undefined where there is none.
Expr CpuCodeCounter::condition_of_term(const Expr& value) {
  auto* sum = value.as<BinaryNode>();
  auto* product = sum && sum->op == BinaryOp::Add ? sum->b.as<BinaryNode>() : nullptr;
  if (product == nullptr || product->op != BinaryOp::Mul || draws_.empty()) return {};
  const Expr cond = zero_elsewhere(product->a);
  return cond.defined() ? cond : zero_elsewhere(product->b);
}

// The share of the executions in which such a term is not left out.
double CpuCodeCounter::share_of_term(const Expr& cond) {
  // Branches on which unrolled copies take turns still cost as much as they leave out.
  bool alternates = false;
  for_each_expr(cond, [&](const Expr& e) {
    auto* n = e.as<BinaryNode>();
    alternates |= n && n->op == BinaryOp::FloorMod && table_.of(e).unrolled;
  });
  if (alternates) return 1;
  return share_of(cond);
}

// The share of the draws in which a condition holds.
double CpuCodeCounter::share_of(const Expr& cond) const {
  double taken = 0;
  for (const IndexValues* v : draws_) taken += v->at(cond) != 0 ? 1 : 0;
  return taken / static_cast<double>(draws_.size());
}

}  // namespace tilewright
