#include "ir/arith/size_facts.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "ir/arith/lane_of.h"
#include "ir/arith/linear.h"
#include "ir/arith/order.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

using arith::Linear;

constexpr size_t kMostQuantities = 256;

// Collects the quantities that depend on the dimensions alone. These are the numbers of tiles of a
// constant length in a dimension, and which of two numbers is larger.
class Quantities : public Visitor {
 public:
  explicit Quantities(const Program& program) {
    for (const DimVar& d : program.dims) dims_.insert(d.var.get());
    visit(program.body);
  }
  const std::vector<Expr>& list() const { return list_; }

 protected:
  using Visitor::visit;
  // Addresses are skipped: they follow from the loops and conditions around them.
  void visit_load(const LoadNode& n) override { visit(n.predicate); }
  void visit_store(const StoreNode& n) override {
    visit(n.value);
    visit(n.predicate);
  }
  void visit_allocate(const AllocateNode& n) override { visit(n.body); }

  void visit_for(const ForNode& n) override {
    consider(n.min);
    consider(n.extent);
    visit(n.min);
    visit(n.extent);
    if (auto extent = as_int(n.extent)) extents_[n.var.get()] = *extent;
    visit(n.body);
  }
  void visit_let(const LetNode& n) override {
    if (n.value.type() == Type(ElemType::index)) consider(n.value);
    Visitor::visit_let(n);
  }
  void visit_binary(const BinaryNode& n) override {
    Visitor::visit_binary(n);
    // Lanes of a vector count on from the first.
    if (n.a.type().lanes > 1 && n.a.type().with_lanes(1) == Type(ElemType::index)) {
      const Expr apart = n.a - n.b;
      if (is_comparison(n.op) && !holds_vectors_in_memory(apart)) {
        consider(LaneOf(Expr(0))(apart), /*signs=*/true);
      }
      return;
    }
    if (n.a.type() != Type(ElemType::index)) return;
    const bool chooses = n.op == BinaryOp::Min || n.op == BinaryOp::Max || is_comparison(n.op);
    if (chooses) consider(n.a - n.b, /*signs=*/true);
    const auto divisor = as_int(n.b);
    const bool divides = n.op == BinaryOp::FloorDiv || n.op == BinaryOp::FloorMod;
    if (divides && divisor && *divisor > 1) tiles(of_dims(Linear::of(n.a)), *divisor);
  }

 private:
  bool is_of_dims(const Expr& e) const {
    bool all = true, any = false;
    for_each_expr(e, [&](const Expr& part) {
      if (part.as<LoadNode>()) all = false;
      if (!part.as<VarNode>()) return;
      (dims_.count(part.get()) ? any : all) = dims_.count(part.get()) != 0;
    });
    return all && any;
  }
  Linear of_dims(const Linear& form) const {
    Linear part(form.constant);
    for (const arith::Term& t : form.terms) {
      if (is_of_dims(t.atom)) part.add(t.atom, t.coef);
    }
    return part;
  }

  // Splits a sum into dimensions and other variables; each of the latter counts tiles of one
  // length. With `signs`, the program tests whether the sum is negative.
  void consider(const Expr& e, bool signs = false) try {
    const Linear form = Linear::of(e);
    Linear part = of_dims(form);
    if (part.is_const()) return;
    if (part.terms[0].coef < 0) part = -part;  // counts whole tiles, not started ones
    if (signs && part.terms.size() == form.terms.size()) add(part.expr() < Expr(0));
    for (const arith::Term& t : form.terms) {
      if (is_of_dims(t.atom)) continue;
      const int64_t length = std::abs(t.coef);
      tiles(part, length);
      const auto extent = extents_.find(t.atom.get());
      if (extent != extents_.end()) tiles(part, arith::checked_mul(length, extent->second));
    }
  } catch (const arith::Overflow&) {  // such a number is too large for any tile
  }

  void tiles(const Linear& part, int64_t length) {
    if (!part.is_const() && length > 1) add(floordiv(part.expr(), Expr(length)));
  }
  void add(const Expr& e) {
    const bool known = std::any_of(list_.begin(), list_.end(),
                                   [&](const Expr& x) { return arith::identical(x, e); });
    if (!known && list_.size() < kMostQuantities) list_.push_back(e);
  }

  std::set<const ExprNode*> dims_;
  std::map<const ExprNode*, int64_t> extents_;
  std::vector<Expr> list_;
};

// Evaluates a quantity at given values of the dimensions; gives nothing where it has no value.
class Evaluation {
 public:
  explicit Evaluation(std::map<const ExprNode*, int64_t> dims) : dims_(std::move(dims)) {}

  std::optional<int64_t> operator()(const Expr& e) const {
    if (auto value = as_int(e)) return value;
    if (e.as<VarNode>()) {
      const auto found = dims_.find(e.get());
      return found == dims_.end() ? std::nullopt : std::optional(found->second);
    }
    const auto* n = e.as<BinaryNode>();
    if (!n) return std::nullopt;
    const auto a = (*this)(n->a), b = (*this)(n->b);
    return a && b ? apply(n->op, *a, *b) : std::nullopt;
  }
  void set(const Var& dim, int64_t value) { dims_[dim.get()] = value; }

 private:
  static std::optional<int64_t> apply(BinaryOp op, int64_t a, int64_t b) try {
    switch (op) {
      case BinaryOp::Add: return arith::checked_add(a, b);
      case BinaryOp::Sub: return arith::checked_add(a, arith::checked_mul(b, -1));
      case BinaryOp::Mul: return arith::checked_mul(a, b);
      case BinaryOp::FloorDiv: return b > 0 ? std::optional(arith::floor_div(a, b)) : std::nullopt;
      case BinaryOp::FloorMod: return b > 0 ? std::optional(arith::floor_mod(a, b)) : std::nullopt;
      case BinaryOp::Min: return std::min(a, b);
      case BinaryOp::Max: return std::max(a, b);
      case BinaryOp::LT: return a < b;
      default: return std::nullopt;
    }
  } catch (const arith::Overflow&) {
    return std::nullopt;
  }

  std::map<const ExprNode*, int64_t> dims_;
};

// The first size after `from` at which the quantity differs from its value at `from`; nothing when
// it has not changed by `last`. Requires a quantity that is monotonic in the size.
std::optional<int64_t> next_change(const Expr& e, Evaluation& at, const Var& dim, int64_t from,
                                   int64_t last) {
  auto value = [&](int64_t size) {
    at.set(dim, size);
    return at(e);
  };
  const auto begin = value(from);
  if (!begin || from >= last || value(last) == begin) return std::nullopt;
  int64_t same = from, other = last;
  for (int64_t stride = 1; same + stride < last; stride *= 2) {  // tries sizes near `from` first
    if (value(same + stride) != begin) {
      other = same + stride;
      break;
    }
    same += stride;
  }
  while (other - same > 1) {
    const int64_t middle = same + (other - same) / 2;
    (value(middle) == begin ? same : other) = middle;
  }
  return other;
}

std::optional<SizeStep> step_of(const Expr& quantity, const Program& program, const DimVar& d) {
  std::map<const ExprNode*, int64_t> dims;
  for (const DimVar& other : program.dims) dims[other.var.get()] = other.max;
  Evaluation at(std::move(dims));
  const auto first = next_change(quantity, at, d.var, d.min, d.max);
  if (!first) return std::nullopt;
  const auto second = next_change(quantity, at, d.var, *first, d.max);
  const int64_t step = second ? *second - *first : 0;
  return step == 1 ? std::nullopt : std::optional(SizeStep{step, *first});
}

// Sorts steps by length, single ones last, and merges two that are one size apart. For example, m =
// 7 completes one tile more than m = 6 and is also the last size without a tail.
std::vector<SizeStep> distinct(std::vector<SizeStep> steps) {
  auto length = [](const SizeStep& s) { return s.step == 0 ? INT64_MAX : s.step; };
  std::sort(steps.begin(), steps.end(), [&](const SizeStep& a, const SizeStep& b) {
    return std::pair(length(a), a.first) < std::pair(length(b), b.first);
  });
  std::vector<SizeStep> kept;
  for (const SizeStep& s : steps) {
    const bool is_new = std::none_of(kept.begin(), kept.end(), [&](const SizeStep& k) {
      const int64_t apart = s.first - k.first;
      return s.step == k.step &&
             (apart <= 1 || (s.step > 0 && (apart % s.step <= 1 || apart % s.step == s.step - 1)));
    });
    if (is_new) kept.push_back(s);
  }
  if (kept.size() <= SizeFacts::kMostSteps) return kept;
  // Keeps the innermost and the outermost tiles.
  constexpr auto kHalf = static_cast<std::ptrdiff_t>(SizeFacts::kMostSteps / 2);
  kept.erase(kept.begin() + kHalf, kept.end() - kHalf);
  return kept;
}

}  // namespace

SizeFacts size_facts(const Program& program) {
  SizeFacts facts;
  const Quantities quantities(program);
  for (const DimVar& d : program.dims) {
    std::vector<SizeStep> steps;
    for (const Expr& quantity : quantities.list()) {
      if (!uses_var(quantity, d.var)) continue;
      if (auto step = step_of(quantity, program, d)) steps.push_back(*step);
    }
    facts.steps.push_back(distinct(std::move(steps)));
  }
  const auto open = static_cast<int>(unproved_accesses(program, &facts.accesses).size());
  facts.proved = facts.accesses - open;
  return facts;
}

}  // namespace tilewright
