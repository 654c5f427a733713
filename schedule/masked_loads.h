// Loads of a statement with the conditions under which selects take their values.
#pragma once

#include <functional>

#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {

// Visits each load with the conjunction of the select conditions around it (undefined: no select).
// A select discards the elements that its mask rejects, so these may be unwritten.
class MaskedLoads : public Visitor {
 public:
  using VisitFn = std::function<void(const LoadNode& load, const Expr& mask)>;
  explicit MaskedLoads(VisitFn found) : found_(std::move(found)) {}

 protected:
  void visit_select(const SelectNode& n) override {
    visit(n.cond);
    const Expr outer = mask_;
    mask_ = conjunction(outer, n.cond);
    visit(n.on_true);
    mask_ = outer;
    visit(n.on_false);
  }
  void visit_load(const LoadNode& n) override {
    found_(n, mask_);
    Visitor::visit_load(n);
  }

 private:
  VisitFn found_;
  Expr mask_;
};

}  // namespace tilewright
