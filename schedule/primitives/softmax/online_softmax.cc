#include "schedule/primitives/softmax/online_softmax.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "ir/arith/interval.h"
#include "ir/arith/steady_loads.h"
#include "ir/buffer.h"
#include "ir/compare.h"
#include "ir/predicates.h"
#include "ir/visitor.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/pointwise.h"
#include "schedule/primitives/softmax/softmax_nests.h"

namespace tilewright {
namespace {

class OnlineRewriter : SoftmaxNests {
 public:
  OnlineRewriter(const OnlineSoftmax& args, const Module& module)
      : SoftmaxNests(OnlineSoftmax::kName, module.main, args.block), args_(args) {
    if (args_.factor < 1) {
      tree_.bad_argument("factor", "a number from 1", std::to_string(args_.factor), {path_.back()});
    }
  }

  Applied rewritten(const Module& module) {
    const ForNode& key_loop = *maximum_.nest.loop_of(maximum_.key);
    step_ = Var(names_.fresh(key_loop.var.name() + "_0"));
    count_steps();
    results_ = {step_.name()};
    std::vector<Stmt> before, step;
    last_ = row_buffer("_last"), from_ = row_buffer("_from"), shift_ = row_buffer("_shift");
    add_maximum(before, step);
    for (const Weighed& w : weighed_) {
      if (w.sums) add_sum(w, before, step);
      step.push_back(blocked(w.nest, w.key));
    }
    before.push_back(
        make_for(step_, first_step_, seen_steps_, ForKind::Serial, make_seq(std::move(step))));
    Module result = module;
    result.main = tree_.replaced(seq_path_, replaced_members(before));
    const std::string& scope = scope_of(path_).as<BlockNode>()->name;
    for (const Buffer& b : {last_, from_, shift_}) result.main = add_alloc(result.main, scope, b);
    return {std::move(result), results_};
  }

 private:
  // Code generation of the new nests --------------------------------------------------------------
  Buffer row_buffer(const std::string& suffix) {
    const Buffer& of = maximum_.store->buffer;
    return make_buffer(names_.fresh(args_.block + suffix), of->elem, of->shape, of->scope);
  }

  // A block over the spatial iterators of a nest. A block that updates what it stores also iterates
  // over the steps.
  Stmt spatial_block(const LoneNest& nest, const IterVar& key, const std::string& name,
                     bool updates, const std::function<Stmt(const SpatialCopy&)>& body) {
    SpatialCopy copy = spatial_copy(nest, nest.loop_of(key));
    if (updates) {
      copy.iters.push_back({Var("v" + step_.name()), steps_, IterKind::Reduce, step_});
    }
    results_.push_back(name);
    return wrap_loops(copy.loops, make_block(name, copy.iters, body(copy), {}, copy.predicate));
  }

  // The block over the keys of one step, with no init.
  Stmt blocked(const LoneNest& nest, const IterVar& key) {
    const ForNode& key_loop = *nest.loop_of(key);
    const BlockNode& old = nest.block();
    Var inner(names_.fresh(key_loop.var.name() + "_1"));
    const Expr place = step_ * Expr(args_.factor) + inner;
    std::vector<IterVar> iters = old.iters;
    for (IterVar& iter : iters) {
      if (iter.var.same_as(key.var)) iter.binding = place, iter.extent = keys_;
    }
    Expr predicate = old.predicate;
    auto extent = as_int(keys_);
    if (!extent || *extent % args_.factor != 0) {
      predicate = conjunction(predicate, place < keys_);
    }
    Stmt body = old.body;
    if (skipped_ > 0) body = substitute(body, {{key.var.get(), key.var + Expr(skipped_)}});
    Stmt result = make_block(old.name, iters, body, {}, predicate, old.allocs, old.annotations);
    if (!nest.stmt.same_as(maximum_.nest.stmt)) {
      result = replace_buffers(result, BufferMap{{maximum_.store->buffer.get(), from_}});
    }
    for (size_t i = nest.loops.size(); i-- > 0;) {
      const ForNode& loop = *nest.loops[i].as<ForNode>();
      bool cut = &loop == &key_loop;
      result = make_for(cut ? inner : loop.var, loop.min, cut ? Expr(args_.factor) : loop.extent,
                        loop.for_kind, result, loop.annotations);
    }
    return result;
  }

  void add_maximum(std::vector<Stmt>& before, std::vector<Stmt>& step) {
    const LoneNest& nest = maximum_.nest;
    const Buffer& top = maximum_.store->buffer;
    const Expr lowest = identity_of(Reducer::Max, Type(top->elem));
    auto row = [&](const std::string& name,
                   const std::function<Stmt(const std::vector<Expr>&)>& body) {
      return spatial_block(nest, maximum_.key, name, false, [&](const SpatialCopy& copy) {
        return body(copy.at(maximum_.store->indices));
      });
    };
    before.push_back(row(names_.fresh(args_.block + "_init"),
                         [&](const auto& at) { return make_store(top, at, lowest); }));
    step.push_back(
        row(last_->name, [&](const auto& at) { return make_store(last_, at, load(top, at)); }));
    step.push_back(blocked(nest, maximum_.key));
    step.push_back(row(from_->name, [&](const auto& at) {
      Expr value = load(top, at);
      return make_store(from_, at, select(value > lowest, value, make_const(value.type(), 0)));
    }));
    step.push_back(row(shift_->name, [&](const auto& at) {
      return make_store(shift_, at, unary(UnaryOp::Exp, load(last_, at) - load(from_, at)));
    }));
  }

  void add_sum(const Weighed& w, std::vector<Stmt>& before, std::vector<Stmt>& step) {
    const StoreNode& store = *w.nest.block().body.as<StoreNode>();
    const std::string& name = w.nest.block().name;
    const Type type(store.buffer->elem);
    before.push_back(spatial_block(
        w.nest, w.key, names_.fresh(name + "_init"), false, [&](const SpatialCopy& copy) {
          return make_store(store.buffer, copy.at(store.indices), make_const(type, 0));
        }));
    step.push_back(spatial_block(
        w.nest, w.key, names_.fresh(name + "_rescale"), true, [&](const SpatialCopy& copy) {
          std::vector<Expr> at = copy.at(store.indices);
          Expr shift = cast(type, load(shift_, copy.at(w.rows)));
          return make_store(store.buffer, at, load(store.buffer, at) * shift);
        }));
  }

  // Computes the number of steps, and the steps in which some row of the nests takes part. Where
  // the last of these is a constant, there are no steps behind it, and none before the first of all.
  void count_steps() {
    Analyzer known = tree_.analyzer_at(seq_path_);
    const Expr factor(args_.factor);
    keys_ = maximum_.key.extent;
    steps_ = known.simplify(floordiv(keys_ + Expr(args_.factor - 1), factor));
    const SeenKeys seen = visible_keys(known);
    first_step_ = 0;
    Expr end = steps_;
    if (seen.end.defined()) {
      end = known.simplify(min(steps_, floordiv(seen.end + Expr(args_.factor - 1), factor)));
      // Lengths read from memory, and rows before the first key, may leave no step.
      if (known.bounds(end).min < 0) end = max(end, Expr(0));
    }
    seen_steps_ = end;
    // The loop's bounds are written so that it is known to end by `end`.
    if (seen.begin.defined()) {
      first_step_ = known.simplify(min(max(floordiv(seen.begin, factor), Expr(0)), end));
      seen_steps_ = known.simplify(end - first_step_);
    }
    auto number = as_int(end), all = as_int(keys_);
    if (number && all) {
      steps_ = end;
      keys_ = std::min(*all, *number * args_.factor);
    }
    // A reduction takes all values of its iterator, so blocks that no row at all sees are none of them.
    const int64_t begin = known.bounds(first_step_).min;
    if (begin <= 0) return;
    skipped_ = begin * args_.factor;
    keys_ = known.simplify(keys_ - Expr(skipped_));
    steps_ = known.simplify(steps_ - Expr(begin));
    first_step_ = known.simplify(first_step_ - Expr(begin));
  }

  // Keys that rows see lie in [begin, end); undefined for bounds that are not known.
  struct SeenKeys {
    Expr begin, end;
  };

  // The tightest bounds that any of the conditions in `visible` gives.
  SeenKeys visible_keys(Analyzer& known) {
    SeenKeys seen;
    for (const Expr& limit : conjuncts(maximum_.visible)) {
      const SeenKeys keys = keys_within(as_less(limit), known);
      if (keys.begin.defined()) {
        seen.begin = seen.begin.defined() ? max(seen.begin, keys.begin) : keys.begin;
      }
      if (keys.end.defined()) seen.end = seen.end.defined() ? min(seen.end, keys.end) : keys.end;
    }
    return seen;
  }

  // A comparison that fails for all later keys once it fails bounds the end. One that holds for all
  // later keys once it holds bounds the beginning.
  SeenKeys keys_within(const Expr& cond, Analyzer& known) {
    auto* limit = cond.as<BinaryNode>();
    if (!limit || (limit->op != BinaryOp::LE && limit->op != BinaryOp::LT)) return {};
    const Var& key = maximum_.key.var;
    Expr room = limit->b - limit->a;
    Expr less = substitute(room, {{key.get(), key + Expr(1)}});
    const auto slope = as_int(known.simplify(less - room));
    if (!slope || (*slope != -1 && *slope != 1)) return {};
    VarMap bindings{{key.get(), Expr(0)}}, single;
    std::map<const ExprNode*, Range> loops;
    for (const Stmt& s : maximum_.nest.loops) {
      const ForNode& loop = *s.as<ForNode>();
      if (is_int(loop.extent, 1)) {
        single[loop.var.get()] = substitute(loop.min, single);
      } else {
        loops[loop.var.get()] = {substitute(loop.min, single), substitute(loop.extent, single)};
      }
    }
    for (const IterVar& iter : maximum_.nest.block().iters) {
      if (!iter.var.same_as(key)) bindings[iter.var.get()] = substitute(iter.binding, single);
    }
    SteadyLoads steady(loops, [&](const Buffer& b) { return is_input(b); });
    room = steady(substitute(room, bindings));
    // Ranges end at 0, so the room before the first key is counted from below.
    const Expr& keys = maximum_.key.extent;
    const Expr below = *slope < 0 ? Expr(0) : keys;
    const Range rows = cover({room + below}, {keys + below + Expr(1)}, loops)[0];
    const Expr last = steady.restored(rows.min + rows.extent - Expr(1) - below);
    const bool is_strict = limit->op == BinaryOp::LT;
    if (*slope < 0) return {{}, is_strict ? last : last + Expr(1)};
    return {is_strict ? Expr(1) - last : Expr(0) - last, {}};
  }

  bool is_input(const Buffer& buffer) const {
    const std::vector<Param>& params = tree_.program().params;
    return std::any_of(params.begin(), params.end(), [&](const Param& p) {
      return p.buffer == buffer && p.role != ParamRole::Output;
    });
  }

  const OnlineSoftmax& args_;
  Var step_;
  Expr keys_, steps_;
  int64_t skipped_ = 0;           // keys before the first step
  Expr first_step_, seen_steps_;  // of the loop; they may vary with the loops around
  Buffer last_, from_, shift_;
  std::vector<std::string> results_;
};

}  // namespace

Applied OnlineSoftmax::apply(const Module& module) const {
  return OnlineRewriter(*this, module).rewritten(module);
}

std::vector<PrimitiveEntry> online_softmax_primitives() {
  return {primitive_entry<OnlineSoftmax>()};
}

}  // namespace tilewright
