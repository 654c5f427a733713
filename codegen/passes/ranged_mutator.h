// A mutator that knows the ranges of the surrounding variables.
#pragma once

#include "ir/arith/simplify.h"
#include "ir/visitor.h"

namespace tilewright {

class RangedMutator : public Mutator {
 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    KnowledgeScope scope(known_);
    known_.bind(n.var, n.min, n.extent);
    return Mutator::mutate_for(n, s);
  }
  Stmt mutate_let(const LetNode& n, const Stmt& s) override {
    KnowledgeScope scope(known_);
    known_.bind(n.var, known_.bounds(n.value));
    return Mutator::mutate_let(n, s);
  }

  Analyzer known_;
};

}  // namespace tilewright
