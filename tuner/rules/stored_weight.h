// The weight of a workload that a block reads.
#pragma once

#include "ir/tensor_expr.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// The arguments of one contraction's rules. If the workload has several weights in forms of their
// own, `workload.weight` is the one that this contraction reads.
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
