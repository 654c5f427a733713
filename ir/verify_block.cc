#include "ir/verify_block.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/arith/linear.h"
#include "ir/arith/mixed_radix.h"
#include "ir/compare.h"
#include "ir/visitor.h"

namespace tilewright::verify_detail {
namespace {

using arith::checked_add;
using arith::checked_mul;
using mixed_radix::Analysis;
using mixed_radix::Digit;
using mixed_radix::Mark;
using mixed_radix::Number;

// Adds the terms of `e` times `factor` to `terms`. False when `e` is no sum of variables times
// constants. Throws Overflow.
bool collect(const Expr& e, int64_t factor, std::map<const ExprNode*, int64_t>* terms,
             int64_t* constant) {
  if (auto value = as_int(e)) {
    *constant = checked_add(*constant, checked_mul(factor, *value));
    return true;
  }
  if (e.as<VarNode>()) return terms->emplace(e.get(), factor).second;
  auto* n = e.as<BinaryNode>();
  if (!n || !n->type.is_scalar()) return false;
  if (n->op == BinaryOp::Add || n->op == BinaryOp::Sub) {
    return collect(n->a, factor, terms, constant) &&
           collect(n->b, n->op == BinaryOp::Add ? factor : checked_mul(factor, -1), terms,
                   constant);
  }
  if (n->op != BinaryOp::Mul) return false;
  auto a = as_int(n->a), b = as_int(n->b);
  if (b) return collect(n->a, checked_mul(factor, *b), terms, constant);
  return a && collect(n->b, checked_mul(factor, *a), terms, constant);
}

const Loop* find_loop(const BlockSite& site, const ExprNode* var) {
  for (const auto* list : {&site.loops, &site.iters}) {
    for (const Loop& loop : *list) {
      if (loop.var.get() == var) return &loop;
    }
  }
  return nullptr;
}

bool trivial(const Loop& loop) { return is_int(loop.extent, 1); }

// The bindings of one block as mixed-radix numbers whose digits are pieces of loops.
class Bindings {
 public:
  Bindings(const BlockNode& block, const BlockSite& site, bool guarded)
      : block_(block), site_(site), conditional_(guarded || block.predicate.defined()) {}
  std::vector<std::string> check();

 private:
  struct Bound {
    const IterVar* iter;
    Number number;
  };
  void check_ranges();
  void analyze();
  void check_reductions();
  bool is_cut(const IterVar& iter) const;
  void check_reduction(const Bound& bound);
  void check_shared();
  void check_repeats();
  std::string label(const IterVar& iter) const;

  const BlockNode& block_;
  const BlockSite& site_;
  bool conditional_;
  std::vector<Bound> bound_;
  std::vector<std::string> messages_;
};

std::string Bindings::label(const IterVar& iter) const {
  return fmt::format("block '{}': the {} iterator '{}'", block_.name,
                     iter.kind == IterKind::Spatial ? "spatial" : "reduce", iter.var.name());
}

// Reports a binding that leaves its iterator's extent. A block under a condition is not checked.
void Bindings::check_ranges() {
  if (conditional_) return;
  for (const IterVar& iter : block_.iters) {
    auto range = LinearIndex(site_).range(iter.binding);
    auto extent = as_int(iter.extent);
    if (!range || !extent || (range->min >= 0 && range->max < *extent)) continue;
    messages_.push_back(fmt::format("{} takes the values {}..{}, and has the extent {}",
                                    label(iter), range->min, range->max, *extent));
  }
}

// Throws IrError when a binding is no mixed-radix number of the loops' digits.
void Bindings::analyze() {
  std::vector<Var> inputs;
  std::vector<Expr> extents;
  VarMap from_min;  // digits count from 0
  for (const auto* list : {&site_.iters, &site_.loops}) {
    for (const Loop& loop : *list) {
      inputs.push_back(loop.var);
      extents.push_back(loop.extent);
      if (!is_int(loop.min, 0)) from_min[loop.var.get()] = loop.var + loop.min;
    }
  }
  Analysis analysis(inputs, extents);
  for (const IterVar& iter : block_.iters) {
    bound_.push_back({&iter, analysis.number(substitute(iter.binding, from_min))});
  }
}

// True when a value below `extent` is always below `limit`.
bool holds_extent(const Expr& limit, const Expr& extent) {
  auto a = as_int(limit), b = as_int(extent);
  return a && b ? *a >= *b : equal(limit, extent);
}

// True when the predicate restricts the binding's loops beyond the iterator's extent. An example is
// the remainder of a split that was split again.
bool Bindings::is_cut(const IterVar& iter) const {
  std::set<const ExprNode*> loops;
  for_each_expr(iter.binding, [&](const Expr& e) {
    if (e.as<VarNode>()) loops.insert(e.get());
  });
  std::vector<Expr> rest{block_.predicate};
  while (!rest.empty()) {
    Expr condition = rest.back();
    rest.pop_back();
    auto* n = condition.as<BinaryNode>();
    if (n && n->op == BinaryOp::And) {
      rest.insert(rest.end(), {n->a, n->b});
      continue;
    }
    bool bound =
        n && n->op == BinaryOp::LT && equal(n->a, iter.binding) && holds_extent(n->b, iter.extent);
    bool uses = false;
    for_each_expr(condition, [&](const Expr& e) { uses |= loops.count(e.get()) > 0; });
    if (uses && !bound) return true;
  }
  return false;
}

// A reduce iterator must take each value of its extent once. A condition may cut off values beyond
// the extent; where it cuts off other values too, nothing is decided.
void Bindings::check_reduction(const Bound& bound) {
  if (is_cut(*bound.iter)) return;
  auto extent = as_int(bound.iter->extent);
  Number n = bound.number;
  // With a condition that the value stays inside the extent, such a digit is always 0.
  if (conditional_ && extent) {
    std::erase_if(n.digits, [&](const Digit& d) { return d.scale >= *extent; });
  }
  bool exact = std::none_of(n.digits.begin(), n.digits.end(), [](const Digit& d) {
    auto whole = d.mark->extent.value(), part = d.extent.value();
    return d.top && whole && part && *whole != *part * d.lower;
  });
  auto covered = as_int(extent_of(n));
  if (!extent || !covered || (!exact && !conditional_)) return;
  bool constant_offset = n.offset == 0 && is_positional(n, 1);
  bool all = conditional_ ? *covered >= *extent : *covered == *extent;
  if (constant_offset && all) return;
  messages_.push_back(
      fmt::format("{} does not take each value of its extent {} once: its binding {}",
                  label(*bound.iter), *extent,
                  constant_offset ? fmt::format("covers {} values", *covered)
                                  : "leaves gaps or repeats values"));
}

void Bindings::check_reductions() {
  for (const Bound& b : bound_) {
    if (b.iter->kind == IterKind::Reduce) check_reduction(b);
  }
}

// No other iterator may take a piece of a loop that a reduce iterator takes.
void Bindings::check_shared() {
  auto overlap = [](const Digit& a, const Digit& b) {
    auto ends_before = [](const Digit& low, const Digit& high) {
      auto extent = low.extent.value();
      return !low.top && extent && low.lower * *extent <= high.lower;
    };
    return a.mark == b.mark && !ends_before(a, b) && !ends_before(b, a) && !a.extent.is(1) &&
           !b.extent.is(1);
  };
  for (size_t i = 0; i < bound_.size(); ++i) {
    for (size_t j = i + 1; j < bound_.size(); ++j) {
      const Bound &a = bound_[i], &b = bound_[j];
      if (a.iter->kind != IterKind::Reduce && b.iter->kind != IterKind::Reduce) continue;
      bool shared =
          std::any_of(a.number.digits.begin(), a.number.digits.end(), [&](const Digit& x) {
            return std::any_of(b.number.digits.begin(), b.number.digits.end(),
                               [&](const Digit& y) { return overlap(x, y); });
          });
      if (!shared) continue;
      messages_.push_back(fmt::format("{} and '{}' are bound to one part of a loop", label(*a.iter),
                                      b.iter->var.name()));
    }
  }
}

// Reports a loop inside a reduction that no iterator is bound to: it would repeat the whole sum.
void Bindings::check_repeats() {
  std::set<const ExprNode*> used, reducing;
  for (const IterVar& iter : block_.iters) {
    for_each_expr(iter.binding, [&](const Expr& e) {
      used.insert(e.get());
      if (iter.kind == IterKind::Reduce) reducing.insert(e.get());
    });
  }
  for_each_expr(block_.predicate, [&](const Expr& e) { used.insert(e.get()); });
  const Loop* reduction = nullptr;
  for (const Loop& loop : site_.loops) {
    if (!reduction && !trivial(loop) && reducing.count(loop.var.get())) reduction = &loop;
    bool thread = loop.kind == ForKind::ThreadX || loop.kind == ForKind::ThreadY ||
                  loop.kind == ForKind::ThreadZ || loop.kind == ForKind::Warp;
    if (!reduction || thread || trivial(loop) || used.count(loop.var.get())) continue;
    messages_.push_back(fmt::format(
        "block '{}': no iterator is bound to the loop '{}', which repeats the reduction over '{}'",
        block_.name, loop.var.name(), reduction->var.name()));
  }
}

std::vector<std::string> Bindings::check() {
  check_ranges();
  check_repeats();
  try {
    analyze();
    check_reductions();
    check_shared();
  } catch (const IrError&) {
    // Bindings that are no mixed-radix numbers are not decided.
  }
  return std::move(messages_);
}

}  // namespace

Loop Loop::of(const ForNode& n) {
  Loop loop{n.var, n.min, n.extent, n.for_kind, std::nullopt};
  auto min = as_int(n.min), extent = as_int(n.extent);
  int64_t last;
  if (min && extent && *extent >= 1 && !__builtin_add_overflow(*min, *extent - 1, &last)) {
    loop.reached = Interval{*min, last};
  }
  return loop;
}

// An iterator reaches every value that its binding reaches when no other iterator shares a variable
// with it.
BlockSite BlockSite::inside(const BlockNode& n) const {
  std::map<const ExprNode*, int> users;
  for (const IterVar& iter : n.iters) {
    std::set<const ExprNode*> vars;
    for_each_expr(iter.binding, [&](const Expr& e) {
      if (e.as<VarNode>()) vars.insert(e.get());
    });
    for (const ExprNode* v : vars) ++users[v];
  }
  BlockSite inner;
  inner.iters = iters;
  inner.bindings = bindings;
  for (const IterVar& iter : n.iters) {
    bool alone = true;
    for_each_expr(iter.binding,
                  [&](const Expr& e) { alone &= !e.as<VarNode>() || users[e.get()] == 1; });
    auto reached = alone ? LinearIndex(*this).range(iter.binding) : std::nullopt;
    inner.iters.push_back({iter.var, Expr(0), iter.extent, ForKind::Serial, reached});
    inner.bindings[iter.var.get()] = iter.binding;
  }
  return inner;
}

bool BlockSite::depends_on(const Expr& e, const Var& var) const {
  bool found = false;
  for_each_expr(e, [&](const Expr& part) {
    auto it = bindings.find(part.get());
    found |= part.same_as(var) || (it != bindings.end() && depends_on(it->second, var));
  });
  return found;
}

std::optional<Interval> LinearIndex::range(const Expr& e) const try {
  std::map<const ExprNode*, int64_t> terms;
  Interval result{0, 0};
  if (!collect(e, 1, &terms, &result.min)) return std::nullopt;
  result.max = result.min;
  for (const auto& [var, factor] : terms) {
    const Loop* loop = find_loop(site_, var);
    if (!loop || !loop->reached) return std::nullopt;
    int64_t first = checked_mul(factor, loop->reached->min);
    int64_t last = checked_mul(factor, loop->reached->max);
    result.min = checked_add(result.min, std::min(first, last));
    result.max = checked_add(result.max, std::max(first, last));
  }
  return result;
} catch (const arith::Overflow&) {
  return std::nullopt;
}

std::vector<std::string> check_bindings(const BlockNode& block, const BlockSite& site,
                                        bool guarded) {
  return Bindings(block, site, guarded).check();
}

}  // namespace tilewright::verify_detail
