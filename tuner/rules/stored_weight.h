// Which of a workload's weights a block reads.
#pragma once

#include "ir/tensor_expr.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// What the rules of one contraction are given: of several weights of the workload in forms of their own
// `workload.weight` is the one that the contraction reads.
class WeightContext {
 public:
  WeightContext(const RuleContext& c, const Block& block);
  WeightContext(const WeightContext&) = delete;
  WeightContext& operator=(const WeightContext&) = delete;

  RuleContext& context() { return context_; }

 private:
  Workload workload_;
  SketchInput input_;
  RuleContext context_;
};

}  // namespace tilewright
