// Vector expressions as the scalars of one lane.
#pragma once

#include "ir/visitor.h"

namespace tilewright {

// Rewrites a vector expression as the scalar expression of one lane, given the lane's number. Requires that
// the expression does not hold vectors in memory.
class LaneOf : public Mutator {
 public:
  explicit LaneOf(Expr lane) : lane_(std::move(lane)) {}

 protected:
  Expr mutate_ramp(const RampNode& n, const Expr&) override {
    return mutate(n.base) + mutate(n.stride) * lane_;
  }
  Expr mutate_broadcast(const BroadcastNode& n, const Expr&) override { return mutate(n.value); }

 private:
  Expr lane_;
};

inline bool holds_vectors_in_memory(const Expr& e) {
  bool found = false;
  for_each_expr(e, [&](const Expr& x) {
    found |= x.as<LoadNode>() != nullptr || x.as<CallNode>() != nullptr;
  });
  return found;
}

}  // namespace tilewright
