// Turns vectorized loops into vector expressions.
#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "codegen/lowering.h"
#include "codegen/passes/ranged_mutator.h"
#include "ir/predicates.h"
#include "schedule/primitives/loops/loop_kinds.h"
#include "schedule/primitives/loops/reduction.h"

namespace tilewright {
namespace {

bool is_power_of_two(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

// Rewrites the body of one vectorized loop whose extent is a power of two and fits a register.
class LaneRewriter : public Mutator {
 public:
  LaneRewriter(Var var, Expr min, int lanes, Analyzer& known)
      : var_(std::move(var)), min_(std::move(min)), lanes_(lanes), known_(known) {}

 protected:
  Expr mutate_var(const VarNode& n, const Expr& e) override {
    if (&n == var_.get()) return ramp(min_, 1, lanes_);
    auto it = lets_.find(&n);
    return it == lets_.end() ? e : it->second;
  }

  Expr mutate_load(const LoadNode& n, const Expr&) override {
    Expr index = lane_index(n.indices[0]);
    if (index.type().is_scalar()) return load(n.buffer, {index}, any_lane());
    // A select discards what its lanes need not have read.
    const Expr mask = is_inside(*n.buffer, index) ? branch_mask_ : mask_;
    return load(n.buffer, {index}, both(mask, mutate(n.predicate)));
  }

  Expr mutate_select(const SelectNode& n, const Expr& e) override {
    Expr cond = mutate(n.cond);
    if (cond.type().is_scalar()) return Mutator::mutate_select(n, e);
    // Each side reads only where its lanes are taken.
    Expr outer = mask_, outer_guard = guard_;
    mask_ = both(outer, cond);
    guard_ = both(outer_guard, n.cond);
    Expr on_true = mutate(n.on_true);
    mask_ = both(outer, !cond);
    guard_ = both(outer_guard, !n.cond);
    Expr on_false = mutate(n.on_false);
    mask_ = outer;
    guard_ = outer_guard;
    return select(cond, on_true, on_false);
  }

  Stmt mutate_store(const StoreNode& n, const Stmt&) override {
    Expr index = lane_index(n.indices[0]);
    Expr value = mutate(n.value);
    Expr mask = both(mask_, mutate(n.predicate));
    if (index.type().is_scalar() && value.type().is_scalar() && !mask.defined()) {
      return make_store(n.buffer, {index}, value, mask, n.is_async);
    }
    if (index.type().is_scalar()) {
      throw LoweringError(
          fmt::format("loop '{}' is vectorized, but each of its iterations writes "
                      "the same element of '{}'",
                      var_.name(), n.buffer->name));
    }
    if (value.type().is_scalar()) value = broadcast(value, lanes_);
    return make_store(n.buffer, {index}, value, mask, n.is_async);
  }

  Stmt mutate_if(const IfNode& n, const Stmt&) override {
    auto* both_sides = n.cond.as<BinaryNode>();
    if (both_sides && both_sides->op == BinaryOp::And && !n.else_case.defined()) {
      // A condition that does not depend on the lane stays a branch.
      return mutate(make_if(both_sides->a, make_if(both_sides->b, n.then_case)));
    }
    Expr cond = simplify(mutate(n.cond));
    if (cond.type().is_scalar()) {
      Stmt then_case = mutate(n.then_case), else_case = mutate(n.else_case);
      if (!then_case.defined()) return {};
      return make_if(cond, then_case, else_case);
    }
    Expr outer = mask_, outer_guard = guard_;
    mask_ = both(outer, cond);
    guard_ = both(outer_guard, n.cond);
    branch_mask_ = mask_;
    Stmt then_case = mutate(n.then_case);
    branch_mask_ = mask_ = both(outer, !cond);
    guard_ = both(outer_guard, !n.cond);
    Stmt else_case = mutate(n.else_case);
    branch_mask_ = mask_ = outer;
    guard_ = outer_guard;
    return make_seq({then_case, else_case});
  }

  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    if (uses_var(n.min, var_) || uses_var(n.extent, var_)) {
      throw LoweringError(fmt::format("the bounds of loop '{}' depend on vectorized loop '{}'",
                                      n.var.name(), var_.name()));
    }
    return Mutator::mutate_for(n, s);
  }

  Stmt mutate_let(const LetNode& n, const Stmt&) override {
    lets_[n.var.get()] = mutate(n.value);
    return mutate(n.body);
  }

  Stmt mutate_allocate(const AllocateNode& n, const Stmt&) override {
    throw LoweringError(fmt::format("buffer '{}' is allocated inside vectorized loop '{}'",
                                    n.buffer->name, var_.name()));
  }

 private:
  static Expr both(const Expr& a, const Expr& b) {
    if (!a.defined()) return b;
    return b.defined() ? a && b : a;
  }

  // Whether any lane is active: it guards the read of one element for all lanes. Undefined when a
  // lane always is.
  Expr any_lane() {
    if (!guard_.defined()) return {};
    Expr any;
    for (int i = 0; i < lanes_; ++i) {
      VarMap lane{{var_.get(), min_ + Expr(i)}};
      Expr active = known_.simplify(substitute(substitute(guard_, lets_), lane));
      any = any.defined() ? any || active : active;
    }
    any = known_.simplify(any);
    return is_int(any, 1) ? Expr() : any;
  }

  // Whether all lanes lie in the buffer, for all values of the variables around the loop.
  bool is_inside(const BufferNode& buffer, const Expr& index) {
    auto* r = index.as<RampNode>();
    const auto size = as_int(buffer.shape[0]), stride = r ? as_int(r->stride) : std::nullopt;
    if (!size || !stride) return false;
    const Interval base = known_.bounds(r->base);
    const int64_t last = *stride * (lanes_ - 1);
    return base.is_bounded() && base.min + std::min<int64_t>(last, 0) >= 0 &&
           base.max + std::max<int64_t>(last, 0) < *size;
  }

  // Turns an affine index into a ramp, any other one into a vector of indices. The known range of
  // the lane removes quotients in which the lane makes no difference.
  Expr lane_index(const Expr& index) {
    Expr scalar = substitute(index, lets_);
    if (!uses_var(scalar, var_)) return scalar.type().is_scalar() ? mutate(index) : scalar;
    Var lane("lane");
    known_.push();
    known_.bind(lane, Interval{0, lanes_ - 1});
    Expr of_lane = known_.simplify(substitute(scalar, VarMap{{var_.get(), min_ + lane}}));
    known_.pop();
    if (!uses_var(of_lane, lane)) return of_lane;
    VarMap next{{lane.get(), lane + 1}};
    auto stride = as_int(simplify(substitute(of_lane, next) - of_lane));
    if (!stride) return simplify(mutate(index));
    return ramp(simplify(substitute(of_lane, VarMap{{lane.get(), Expr(0)}})), *stride, lanes_);
  }

  Var var_;
  Expr min_;
  int lanes_;
  Analyzer& known_;
  Expr mask_;         // the active lanes
  Expr branch_mask_;  // those by branches alone, without selects
  Expr guard_;        // the same as a condition on the loop's variable
  VarMap lets_;
};

// The widest element that a body computes with. In CUDA kernels, elements that only locate the
// elements of all lanes (a page's number) are no lanes themselves.
class WidestElement : public Visitor {
 public:
  WidestElement(const Target& target, Var var) : is_gpu_(target.is_cuda()), var_(std::move(var)) {
    if (!is_gpu_) bits = 8;  // a thread of a GPU copies codes without unpacking them
  }
  int bits = 1;

 protected:
  void visit(const Expr& e) override {
    if (!e.defined()) return;
    auto* place = e.as<CastNode>();
    const bool is_index = e.type().elem == ElemType::index;
    if (is_gpu_ && place && is_index && !uses_var(e, var_)) return;
    if (!is_index && e.type().elem != ElemType::boolean) {
      bits = std::max(bits, bits_of(e.type().elem));
    }
    Visitor::visit(e);
  }
  void visit(const Stmt& s) override { Visitor::visit(s); }

 private:
  bool is_gpu_;
  Var var_;
};

// The widest element decides how many lanes fit a register.
int widest_bits(const Stmt& body, const Target& target, const Var& var) {
  WidestElement widest(target, var);
  widest(body);
  return widest.bits;
}

// Lowers a loop that vectorize_reduction has marked. Each result is the reduction of whole vectors of
// terms, lane by lane, and then of their lanes.
class LaneReduction {
 public:
  LaneReduction(const ForNode& loop, const Target& target, Analyzer& known)
      : outer_(loop), known_(known) {
    Stmt at = loop.body;
    for (;;) {
      if (auto* inner = at.as<ForNode>(); inner && !inner_) {
        inner_ = inner;
        at = inner->body;
      } else if (auto* guard = at.as<IfNode>(); guard && !guard->else_case.defined()) {
        for (const Expr& c : conjuncts(guard->cond)) conditions_.push_back(c);
        at = guard->then_case;
      } else if (auto* let = at.as<LetNode>()) {
        at = substitute(let->body, VarMap{{let->var.get(), let->value}});
      } else {
        break;
      }
    }
    body_ = at;
    auto* store = at.as<StoreNode>();
    update_ = store ? match_update(*store) : Reduction{};
    const bool known_op = update_.reducer == Reducer::Sum || update_.reducer == Reducer::Max;
    if (!known_op || !as_int(reduce().extent) || !as_int(outer_.extent)) {
      throw LoweringError(fmt::format("loop '{}' is no reduction any more", loop.var.name()));
    }
    results_ = inner_ ? static_cast<int>(*as_int(outer_.extent)) : 1;
    lanes_ = std::max(1, target.lanes(widest_bits(body_, target, reduce().var)));
  }

  Stmt lowered() {
    const StoreNode& store = *update_.store;
    std::vector<Expr> around, of_result, of_term;
    for (const Expr& c : conditions_) {
      const bool of_reduce = uses_var(c, reduce().var);
      const bool of_outer = inner_ && uses_var(c, outer_.var);
      (of_reduce ? of_term : of_outer ? of_result : around).push_back(c);
    }
    const Expr total = combined(of_result, of_term);
    Expr index = store.indices[0], mask;
    if (inner_) {
      LaneRewriter rewriter(outer_.var, outer_.min, results_, known_);
      const Expr first = at_result(index, 0);
      const auto stride = as_int(known_.simplify(at_result(index, 1 % results_) - first));
      if (!stride) throw LoweringError("results of a reduction stand at no constant stride");
      for (int r = 2; r < results_; ++r) {
        const Expr at = first + Expr(r * *stride);
        if (is_int(known_.simplify(at_result(index, r) - at), 0)) continue;
        throw LoweringError("results of a reduction stand at more than one stride");
      }
      if (results_ > 1) index = ramp(first, *stride, results_);
      if (results_ == 1) index = first;
      for (const Expr& c : of_result) {
        const Expr here = results_ > 1 ? rewriter(c) : at_result(c, 0);
        mask = mask.defined() ? mask && here : here;
      }
    }
    Stmt result =
        make_store(store.buffer, {index},
                   combine(update_.reducer, load(store.buffer, {index}, mask), total), mask);
    for (size_t i = around.size(); i-- > 0;) result = make_if(around[i], result);
    return result;
  }

 private:
  const ForNode& reduce() const { return inner_ ? *inner_ : outer_; }

  Expr at_result(const Expr& e, int result) const {
    if (!inner_) return e;
    return known_.simplify(substitute(e, VarMap{{outer_.var.get(), outer_.min + Expr(result)}}));
  }

  // All terms: whole vectors, and what is left in shorter ones.
  Expr combined(const std::vector<Expr>& of_result, const std::vector<Expr>& of_term) {
    const Type type = update_.value.type();
    const CallOp op = update_.reducer == Reducer::Sum ? CallOp::LaneSum : CallOp::LaneMax;
    const int64_t extent = *as_int(reduce().extent);
    Expr total;
    for (int64_t done = 0; done < extent;) {
      int64_t width = std::min<int64_t>(lanes_, extent - done);
      while (!is_power_of_two(width)) width &= width - 1;
      const int64_t count = width == lanes_ ? (extent - done) / width : 1;
      std::vector<Expr> vectors;
      for (int r = 0; r < results_; ++r) {
        Expr vector = terms(r, done, width, count, of_term);
        vectors.push_back(where(of_result, r, vector));
      }
      const Expr part = call(type.with_lanes(results_), op, vectors);
      total = total.defined() ? combine(update_.reducer, total, part) : part;
      done += width * count;
    }
    return total;
  }

  // `count` vectors of terms of one result, combined lane by lane.
  Expr terms(int result, int64_t first, int64_t width, int64_t count,
             const std::vector<Expr>& of_term) {
    const ForNode& loop = reduce();
    Expr value = update_.value;
    for (const Expr& c : of_term) {
      value = select(c, value, identity_of(update_.reducer, value.type()));
    }
    value = at_result(value, result);
    Expr all;
    for (int64_t i = 0; i < count; ++i) {
      const Expr min = known_.simplify(loop.min + Expr(first + i * width));
      Expr vector = width == 1
                        ? known_.simplify(substitute(value, VarMap{{loop.var.get(), min}}))
                        : LaneRewriter(loop.var, min, static_cast<int>(width), known_)(value);
      if (vector.type().lanes != width) vector = broadcast(vector, static_cast<int>(width));
      all = all.defined() ? combine(update_.reducer, all, vector) : vector;
    }
    return all;
  }

  // The vector where the conditions on a result hold.
  Expr where(const std::vector<Expr>& conditions, int result, const Expr& vector) {
    Expr cond;
    for (const Expr& c : conditions) {
      const Expr here = at_result(c, result);
      if (is_int(here, 1)) continue;
      cond = cond.defined() ? cond && here : here;
    }
    if (!cond.defined()) return vector;
    const Expr nothing = identity_of(update_.reducer, vector.type());
    return call(vector.type(), CallOp::IfThenElse, {cond, vector, nothing});
  }

  const ForNode& outer_;
  const ForNode* inner_ = nullptr;
  Analyzer& known_;
  std::vector<Expr> conditions_;
  Stmt body_;  // holds the store of `update_`
  Reduction update_;
  int results_ = 1, lanes_ = 1;
};

class Vectorizer : public RangedMutator {
 public:
  explicit Vectorizer(const Target& target) : target_(target) {}

 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    if (n.for_kind != ForKind::Vectorized) return RangedMutator::mutate_for(n, s);
    if (n.annotations.contains(kReduceLanes)) {
      return LaneReduction(n, target_, known_).lowered();
    }
    auto extent = as_int(n.extent);
    if (!extent) {
      throw LoweringError(fmt::format("vectorized loop '{}' has no constant extent", n.var.name()));
    }
    Stmt body = mutate(n.body);
    int64_t lanes = std::max(1, target_.lanes(widest_bits(body, target_, n.var)));
    std::vector<Stmt> pieces;
    int64_t done = 0;
    while (done < *extent) {
      int64_t width = std::min(lanes, *extent - done);
      while (!is_power_of_two(width)) width &= width - 1;
      int64_t count = (*extent - done) / width;
      if (width == lanes && count > 1) {
        pieces.push_back(unrolled_pieces(n, body, done, width, count));
        done += width * count;
      } else {
        pieces.push_back(one_piece(n, body, n.min + Expr(done), width));
        done += width;
      }
    }
    return make_seq(std::move(pieces));
  }

 private:
  Stmt one_piece(const ForNode& n, const Stmt& body, const Expr& min, int64_t width) {
    Expr first = simplify(min);
    if (width == 1) return simplify(substitute(body, VarMap{{n.var.get(), first}}));
    return LaneRewriter(n.var, first, static_cast<int>(width), known_)(body);
  }

  Stmt unrolled_pieces(const ForNode& n, const Stmt& body, int64_t done, int64_t width,
                       int64_t count) {
    Var part(n.var.name() + "_v");
    known_.push();
    known_.bind(part, 0, count);
    Stmt vector = one_piece(n, body, n.min + Expr(done) + part * Expr(width), width);
    known_.pop();
    return make_for(part, 0, count, ForKind::Unrolled, vector);
  }

  const Target& target_;
};

}  // namespace

Program vectorize_loops(const Program& program, const Target& target) {
  Program result = program;
  result.body = Vectorizer(target)(program.body);
  return result;
}

}  // namespace tilewright
