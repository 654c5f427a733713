#include "schedule/affine.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "ir/compare.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

// floormod(floordiv(source, lower), extent) times a coefficient. An undefined extent stands for no
// floormod: the digit reaches the top of the source's range.
struct Digit {
  Expr source, lower, extent;
  int64_t coefficient = 1;
};

using LinearForm = std::vector<Digit>;

bool same(const Expr& a, const Expr& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return equal(a, b);
}

bool same_digit(const Digit& a, const Digit& b) {
  return same(a.source, b.source) && same(a.lower, b.lower) && same(a.extent, b.extent);
}

class Recovery {
 public:
  Recovery(const std::vector<Stmt>& loops, Analyzer& known) : known_(known) {
    for (const Stmt& s : loops) vars_.insert(s.as<ForNode>()->var.get());
  }

  void add(const IndexForm& form) {
    LinearForm digits;
    if (parse(form.value, 1, digits)) recover_digits(std::move(digits), form.slack);
  }

  // The loops that are known after all forms were added.
  std::set<const ExprNode*> loops() {
    // A composite source that becomes known is itself a form, which may make others known.
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t i = 0; i < digits_.size(); ++i) {
        Expr source = digits_[i].source;
        if (is_known(source) || !covered(source)) continue;
        sources_.push_back(source);
        progress = true;
        if (!source.as<VarNode>()) add({source, 0});
      }
    }
    std::set<const ExprNode*> result;
    for (const ExprNode* var : vars_) {
      if (is_known_var(var)) result.insert(var);
    }
    return result;
  }

 private:
  bool varies(const Expr& e) const {
    bool found = false;
    for_each_expr(e, [&](const Expr& x) { found |= vars_.count(x.get()) > 0; });
    return found;
  }

  // Appends the terms of `scale` * e; false when e is no sum of digits.
  bool parse(const Expr& e, int64_t scale, LinearForm& form) {
    if (!varies(e)) return true;
    if (e.as<VarNode>()) return append({e, Expr(1), Expr(), scale}, form);
    auto* n = e.as<BinaryNode>();
    if (!n) return false;
    switch (n->op) {
      case BinaryOp::Add: return parse(n->a, scale, form) && parse(n->b, scale, form);
      case BinaryOp::Sub: return parse(n->a, scale, form) && parse(n->b, -scale, form);
      case BinaryOp::Mul: {
        auto left = as_int(n->a), right = as_int(n->b);
        if (!left && !right) return false;
        int64_t product;
        if (__builtin_mul_overflow(scale, left ? *left : *right, &product)) return false;
        return parse(left ? n->b : n->a, product, form);
      }
      case BinaryOp::FloorDiv: return !varies(n->b) && append(quotient(*n, scale), form);
      case BinaryOp::FloorMod: return !varies(n->b) && append(remainder(*n, scale), form);
      default: return false;
    }
  }

  Digit quotient(const BinaryNode& n, int64_t scale) {
    auto* inner = n.a.as<BinaryNode>();
    auto lower = as_int(n.b);
    // Nested divisions by constants were merged already; divisions by a size known at launch were
    // not.
    if (inner && inner->op == BinaryOp::FloorDiv && is_positive(inner->b) && is_positive(n.b)) {
      return {inner->a, known_.simplify(inner->b * n.b), Expr(), scale};
    }
    if (inner && inner->op == BinaryOp::FloorMod && lower) {
      auto extent = as_int(inner->b);
      if (extent && *lower > 0 && *extent % *lower == 0) {
        return {inner->a, n.b, Expr(*extent / *lower), scale};
      }
    }
    return {n.a, n.b, Expr(), scale};
  }

  // True when `e` is positive and does not vary with the loops.
  bool is_positive(const Expr& e) { return !varies(e) && known_.bounds(e).min > 0; }

  Digit remainder(const BinaryNode& n, int64_t scale) {
    auto* inner = n.a.as<BinaryNode>();
    if (inner && inner->op == BinaryOp::FloorDiv && !varies(inner->b)) {
      return {inner->a, inner->b, n.b, scale};
    }
    return {n.a, Expr(1), n.b, scale};
  }

  bool append(Digit digit, LinearForm& form) {
    for (Digit& other : form) {
      if (!same_digit(other, digit)) continue;
      return !__builtin_add_overflow(other.coefficient, digit.coefficient, &other.coefficient);
    }
    form.push_back(std::move(digit));
    return true;
  }

  // The digit's largest value minus its smallest, or nothing when it has no bound.
  std::optional<int64_t> span(const Digit& digit) {
    Expr value = digit.source;
    if (!is_int(digit.lower, 1)) value = floordiv(value, digit.lower);
    if (digit.extent.defined()) value = floormod(value, digit.extent);
    Interval range = known_.bounds(value);
    if (!range.is_bounded()) return std::nullopt;
    return range.max - range.min;
  }

  void recover_digits(LinearForm form, int64_t slack) {
    std::erase_if(form, [](const Digit& d) { return d.coefficient == 0; });
    std::stable_sort(form.begin(), form.end(), [](const Digit& a, const Digit& b) {
      return std::abs(a.coefficient) < std::abs(b.coefficient);
    });
    // From the smallest term up: finds how many of the largest terms exceed the sum of all terms
    // below.
    size_t first_known = 0;
    int64_t below = slack;
    for (size_t i = 0; i < form.size(); ++i) {
      int64_t coefficient = std::abs(form[i].coefficient);
      if (coefficient <= below) first_known = i + 1;
      auto range = span(form[i]);
      int64_t reach;
      if (!range || __builtin_mul_overflow(*range, coefficient, &reach) ||
          __builtin_add_overflow(below, reach, &below)) {
        // No term above an unbounded term is known; the term itself is known when it is the
        // largest.
        below = INT64_MAX;
      }
    }
    for (size_t i = first_known; i < form.size(); ++i) digits_.push_back(form[i]);
  }

  bool is_known(const Expr& source) const {
    return std::any_of(sources_.begin(), sources_.end(),
                       [&](const Expr& s) { return same(s, source); });
  }

  bool is_known_var(const ExprNode* var) {
    return std::any_of(sources_.begin(), sources_.end(),
                       [&](const Expr& s) { return s.get() == var; });
  }

  // True when the known digits of `source` make up its whole range.
  bool covered(const Expr& source) {
    Interval range = known_.bounds(source);
    Expr reached(1);
    for (size_t step = 0; step <= digits_.size(); ++step) {
      auto value = as_int(reached);
      if (value && range.min >= 0 && range.max < *value) return true;
      const Digit* next = nullptr;
      for (const Digit& digit : digits_) {
        if (same(digit.source, source) && same(digit.lower, reached)) next = &digit;
      }
      if (!next) return false;
      if (!next->extent.defined()) return true;
      reached = known_.simplify(next->lower * next->extent);
    }
    return false;
  }

  Analyzer& known_;
  std::set<const ExprNode*> vars_;
  std::vector<Digit> digits_;  // known ones
  std::vector<Expr> sources_;  // known ones
};

}  // namespace

std::set<const ExprNode*> recoverable(const std::vector<IndexForm>& forms,
                                      const std::vector<Stmt>& loops, Analyzer& known) {
  Recovery recovery(loops, known);
  for (const IndexForm& form : forms) recovery.add({known.simplify(form.value), form.slack});
  std::set<const ExprNode*> result = recovery.loops();
  for (const Stmt& s : loops) {
    auto* loop = s.as<ForNode>();
    if (is_int(loop->extent, 1)) result.insert(loop->var.get());
  }
  return result;
}

std::vector<int> iterators_in(const BlockNode& block, const Expr& index) {
  std::vector<int> found;
  for (size_t x = 0; x < block.iters.size(); ++x) {
    if (uses_var(index, block.iters[x].var)) found.push_back(static_cast<int>(x));
  }
  return found;
}

}  // namespace tilewright
