#include "ir/arith/knowledge.h"

#include <algorithm>

#include "ir/arith/order.h"
#include "ir/predicates.h"

namespace tilewright::arith {

Interval values_of(ElemType elem) {
  const ElemInfo& t = info(elem);
  if (t.kind == ElemKind::Bool) return {0, 1};
  if (elem == ElemType::i1) return {-1, 1};
  if (t.bits >= 64 || t.kind == ElemKind::Float) return Interval::everything();
  if (t.kind == ElemKind::UInt) return {0, (int64_t{1} << t.bits) - 1};
  return {-(int64_t{1} << (t.bits - 1)), (int64_t{1} << (t.bits - 1)) - 1};
}

void Knowledge::push() {
  scopes_.push_back({{}, inequalities_.size(), facts_.size()});
  memo_.push();
  ++version_;
}

void Knowledge::pop() {
  Scope& scope = scopes_.back();
  for (auto it = scope.replaced.rbegin(); it != scope.replaced.rend(); ++it) {
    vars_.erase(it->first.get());
    if (it->second) vars_.emplace(it->first.get(), std::move(*it->second));
  }
  inequalities_.resize(scope.inequalities);
  facts_.resize(scope.facts);
  scopes_.pop_back();
  memo_.pop();
  ++version_;
}

void Knowledge::changed() {
  memo_.clear();
  ++version_;
}

void Knowledge::set(const Expr& var, VarFact fact) {
  auto it = vars_.find(var.get());
  std::optional<VarFact> old;
  if (it != vars_.end()) old = it->second;
  scopes_.back().replaced.emplace_back(var, std::move(old));
  symbolic_ |= fact.lower.has_value() || fact.upper.has_value();
  vars_.insert_or_assign(var.get(), std::move(fact));
  changed();
}

void Knowledge::bind(const Expr& var, Interval range, std::optional<Linear> lower,
                     std::optional<Linear> upper, bool fold) {
  range.max = std::max(range.min, range.max);  // an empty range has no values, so any range will do
  set(var, {var, range, std::move(lower), std::move(upper), ++age_, fold});
}

void Knowledge::define(const Expr& var, Interval range) {
  vars_.insert_or_assign(var.get(), VarFact{var, range, {}, {}, ++age_, false});
}

void Knowledge::learn_not_positive(const Linear& form) {
  if (form.is_const()) return;
  int64_t divisor = common_divisor(form);
  Linear terms;
  for (const Term& t : form.terms) terms.add(t.atom, t.coef / divisor);
  terms.sort();
  int64_t limit = floor_div(checked_mul(form.constant, -1), divisor);
  changed();
  tighten_variables(terms, limit);
  const Term& first = terms.terms[0];
  if (terms.terms.size() > 1 || first.atom.as<VarNode>() == nullptr) {
    inequalities_.push_back({std::move(terms), limit});
  } else if (const Linear* value = definition_of(first.atom)) {
    learn_not_positive(*value * first.coef - Linear(limit));
  }
}

const Linear* Knowledge::definition_of(const Expr& var) const {
  auto it = vars_.find(var.get());
  if (it == vars_.end()) return nullptr;
  const std::optional<Linear>&lower = it->second.lower, &upper = it->second.upper;
  if (!lower || !upper || !same(*lower, *upper)) return nullptr;
  // A name keeps what memory held when it was given.
  const bool reads =
      std::ranges::any_of(lower->terms, [](const Term& t) { return reads_memory(t.atom); });
  return reads ? nullptr : &*lower;
}

// Bounds each variable by the limit minus the minimum of the other terms.
void Knowledge::tighten_variables(const Linear& terms, int64_t limit) {
  for (const Term& t : terms.terms) {
    if (t.atom.as<VarNode>() == nullptr) continue;
    Linear others = terms;
    others.add(t.atom, -t.coef);
    Interval least = bounds(others);
    if (least.min == Interval::kNegInf || least.min == Interval::kPosInf) continue;
    Interval room = sub(Interval::point(limit), Interval::point(least.min));
    if (!room.is_bounded()) continue;
    tighten(t.atom, t.coef > 0 ? Interval{Interval::kNegInf, floor_div(room.max, t.coef)}
                               : Interval{-floor_div(room.max, -t.coef), Interval::kPosInf});
  }
}

void Knowledge::tighten(const Expr& var, Interval range) {
  Interval old = range_of(var), both = intersect(old, range);
  if (both == old) return;
  auto it = vars_.find(var.get());
  VarFact fact = it != vars_.end() ? it->second : VarFact{var, {}, {}, {}, ++age_, true};
  fact.range = both;
  set(var, std::move(fact));
}

void Knowledge::learn_fact(const Expr& condition, bool value) {
  facts_.emplace_back(condition, value);
  changed();
  auto* n = condition.as<BinaryNode>();
  bool differs = n != nullptr && n->op == (value ? BinaryOp::NE : BinaryOp::EQ);
  if (!differs || n->a.as<VarNode>() == nullptr) return;
  auto point = as_int(n->b);
  if (!point) return;
  // Excluding a value at an end of the range moves that end.
  Interval range = range_of(n->a);
  if (range.is_point()) return;
  if (range.min == *point) tighten(n->a, {*point + 1, Interval::kPosInf});
  if (range.max == *point) tighten(n->a, {Interval::kNegInf, *point - 1});
}

std::optional<bool> Knowledge::fact(const Expr& condition) const {
  for (const auto& [known, value] : facts_) {
    if (identical(known, condition)) return value;
  }
  return std::nullopt;
}

Interval Knowledge::range_of(const Expr& var) const {
  auto it = vars_.find(var.get());
  return it == vars_.end() ? values_of(var.type().elem) : it->second.range;
}

std::optional<int64_t> Knowledge::value_of(const Expr& var) const {
  auto it = vars_.find(var.get());
  bool folds = it != vars_.end() && it->second.fold && it->second.range.is_point();
  return folds ? std::optional(it->second.range.min) : std::nullopt;
}

Interval Knowledge::bounds(const Linear& form) {
  constexpr int kEffort = 96;
  bool outermost = !asking_;
  if (outermost) effort_ = kEffort;
  asking_ = true;
  Interval result = bounds_both_ways(form);
  if (outermost) asking_ = false;
  return result;
}

namespace {

int64_t negated(int64_t end) {
  if (end == Interval::kNegInf) return Interval::kPosInf;
  return end == Interval::kPosInf ? Interval::kNegInf : -end;
}

}  // namespace

Interval Knowledge::bounds_both_ways(const Linear& form) {
  constexpr int kDepth = 4;
  Interval result;
  try {
    result = {negated(upper(-form, kDepth)), upper(form, kDepth)};
    // The facts contradict each other, so the code is unreachable and any result is correct. The
    // bound by terms does not depend on the form of the query.
    if (result.min > result.max) {
      result = {negated(upper_by_terms(-form)), upper_by_terms(form)};
    }
  } catch (const Overflow&) {
    return Interval::everything();
  }
  return result;
}

Interval Knowledge::bounds(const Expr& e) {
  if (auto value = as_int(e)) return Interval::point(*value);
  if (e.type() == Type(ElemType::index)) return bounds(Linear::of(e));
  if (e.as<VarNode>() != nullptr) return range_of(e);
  Interval all = values_of(e.type().elem);
  if (auto* n = e.as<CastNode>(); n != nullptr && !is_float(n->value.type().elem)) {
    Interval inner = bounds(n->value);
    return inner.min >= all.min && inner.max <= all.max ? inner : all;
  }
  if (auto* n = e.as<SelectNode>()) return unite(bounds(n->on_true), bounds(n->on_false));
  return all;
}

Interval Knowledge::binary_bounds(BinaryOp op, const Expr& a, const Expr& b) {
  switch (op) {
    case BinaryOp::FloorDiv: return floordiv(bounds(a), bounds(b));
    case BinaryOp::FloorMod: return floormod(bounds(a), bounds(b));
    case BinaryOp::Mul: return mul(bounds(a), bounds(b));
    case BinaryOp::Min: return min(bounds(a), bounds(b));
    case BinaryOp::Max: return max(bounds(a), bounds(b));
    default: return Interval::everything();
  }
}

Interval Knowledge::atom_bounds(const Expr& atom) {
  if (atom.as<VarNode>() != nullptr) return range_of(atom);
  if (const Interval* known = memo_.find(atom)) return *known;
  Interval result;
  if (auto* n = atom.as<BinaryNode>()) {
    result = binary_bounds(n->op, n->a, n->b);
  } else if (auto* n = atom.as<SelectNode>()) {
    result = unite(bounds(n->on_true), bounds(n->on_false));
  } else if (auto* n = atom.as<CastNode>()) {
    if (!is_float(n->value.type().elem)) result = bounds(n->value);
  } else if (auto* n = atom.as<UnaryNode>(); n != nullptr && n->op == UnaryOp::Abs) {
    Interval inner = bounds(n->a);
    result = max(inner, sub(Interval::point(0), inner));
    result.min = std::max<int64_t>(result.min, 0);
  } else if (auto* n = atom.as<CallNode>(); n != nullptr && n->op == CallOp::IfThenElse) {
    result = unite(bounds(n->args[1]), bounds(n->args[2]));
  }
  memo_.put(atom, result);
  return result;
}

}  // namespace tilewright::arith
