#include "ir/arith/simplify.h"

#include "ir/arith/rewriter.h"
#include "ir/visitor.h"

namespace tilewright {

struct Analyzer::Impl {
  arith::Knowledge known;
  arith::Rewriter rewriter{&known};

  void bind(const Expr& var, const Expr& min, const Expr& extent, bool fold);
};

Analyzer::Analyzer() : impl_(std::make_unique<Impl>()) {}
Analyzer::~Analyzer() = default;
Analyzer::Analyzer(Analyzer&&) noexcept = default;
Analyzer& Analyzer::operator=(Analyzer&&) noexcept = default;

void Analyzer::Impl::bind(const Expr& var, const Expr& min, const Expr& extent, bool fold) {
  using arith::Linear;
  try {
    Linear low = rewriter.linear(min);
    Linear high = low + rewriter.linear(extent) - Linear(1);
    Interval range{known.bounds(low).min, known.bounds(high).max};
    std::optional<Linear> lower, upper;
    if (!low.is_const()) lower = std::move(low);
    if (!high.is_const()) upper = std::move(high);
    known.bind(var, range, std::move(lower), std::move(upper), fold);
  } catch (const arith::Overflow&) {
    known.bind(var, Interval::everything());
  }
}

void Analyzer::bind(const Expr& var, const Expr& min, const Expr& extent) {
  impl_->bind(var, min, extent, true);
}

void Analyzer::bind_kept(const Expr& var, const Expr& min, const Expr& extent) {
  impl_->bind(var, min, extent, false);
}

void Analyzer::bind(const Expr& var, Interval range) { impl_->known.bind(var, range); }
void Analyzer::push() { impl_->rewriter.push(); }
void Analyzer::pop() { impl_->rewriter.pop(); }

void Analyzer::assume(const Expr& condition) {
  try {
    impl_->rewriter.assume(condition);
  } catch (const arith::Overflow&) {
    return;  // a condition that overflows is not recorded
  }
}

Expr Analyzer::simplify(const Expr& e) {
  try {
    return impl_->rewriter.rewrite(e);
  } catch (const arith::Overflow&) {
    return e;
  }
}

bool Analyzer::prove(const Expr& condition) { return arith::is_true(simplify(condition)); }

Interval Analyzer::bounds(const Expr& e) { return impl_->known.bounds(simplify(e)); }

Expr simplify(const Expr& e) { return Analyzer().simplify(e); }

}  // namespace tilewright
