#include "schedule/primitives/online_softmax.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "ir/buffer.h"
#include "ir/compare.h"
#include "ir/interval.h"
#include "ir/predicates.h"
#include "ir/visitor.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/pointwise.h"
#include "schedule/primitives/softmax_weights.h"

namespace tilewright {
namespace {

// A nest over the spatial iterators of another one, with a block of its own: the loops and iterators
// of the other renamed.
struct SpatialCopy {
  std::vector<Stmt> loops;
  std::vector<IterVar> iters;
  Expr predicate;
  VarMap renamed;  // iterators of the other block

  Expr at(const Expr& e) const { return substitute(e, renamed); }
  std::vector<Expr> at(const std::vector<Expr>& list) const {
    std::vector<Expr> result;
    for (const Expr& e : list) result.push_back(at(e));
    return result;
  }
};

// Inputs that are read at the same place whatever the loops of a nest do, as variables: bounds know no
// more of a load than its type.
class SteadyLoads : public Mutator {
 public:
  SteadyLoads(const Program& program, const std::map<const ExprNode*, Range>& loops)
      : program_(program), loops_(loops) {}

  Expr restored(const Expr& e) const { return substitute(e, values_); }

 protected:
  Expr mutate_cast(const CastNode& n, const Expr& e) override {
    auto* read = n.value.as<LoadNode>();
    if (read == nullptr || n.type.elem != ElemType::index || !is_input(*read) || varies(e)) {
      return Mutator::mutate_cast(n, e);
    }
    for (const auto& [value, var] : named_) {
      if (equal(value, e)) return var;
    }
    Var var(read->buffer->name);
    values_[var.get()] = e;
    named_.emplace_back(e, var);
    return var;
  }

 private:
  bool is_input(const LoadNode& n) const {
    return std::any_of(program_.params.begin(), program_.params.end(), [&](const Param& p) {
      return p.buffer == n.buffer && p.role != ParamRole::Output;
    });
  }
  bool varies(const Expr& e) const {
    bool found = false;
    for_each_expr(e, [&](const Expr& x) { found |= loops_.contains(x.get()); });
    return found;
  }

  const Program& program_;
  const std::map<const ExprNode*, Range>& loops_;
  std::vector<std::pair<Expr, Var>> named_;
  VarMap values_;
};

class OnlineRewriter {
 public:
  OnlineRewriter(const OnlineSoftmax& args, const Module& module)
      : tree_(OnlineSoftmax::kName, module.main), args_(args), names_(module.main),
        path_(tree_.block(args.block)) {
    find_maximum();
    find_weighed();
    require_private();
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
    before.push_back(make_for(step_, 0, seen_steps_, ForKind::Serial, make_seq(std::move(step))));
    Module result = module;
    result.main = tree_.replaced(seq_path_, replaced_members(before));
    const std::string& scope = scope_of(path_).as<BlockNode>()->name;
    for (const Buffer& b : {last_, from_, shift_}) result.main = add_alloc(result.main, scope, b);
    return {std::move(result), results_};
  }

 private:
  // What there is ---------------------------------------------------------------------------------
  // The sequence that the nest of the block stands in.
  LoneNest find_sequence() {
    size_t at = path_.size() - 1;
    while (at > 0 && path_[at - 1].as<ForNode>()) --at;
    tree_.require(at > 0 && path_[at - 1].as<SeqNode>(), RefusalKind::BadStructure,
                  fmt::format("nothing stands beside the loops of block '{}'", args_.block),
                  {path_.back()});
    seq_path_.assign(path_.begin(), path_.begin() + static_cast<std::ptrdiff_t>(at));
    std::optional<LoneNest> nest = lone_nest(path_[at]);
    tree_.require(nest.has_value(), RefusalKind::BadStructure,
                  fmt::format("block '{}' does not stand alone in serial loops", args_.block),
                  {path_[at]});
    return *nest;
  }

  void find_maximum() {
    if (args_.factor < 1) {
      tree_.bad_argument("factor", "a number from 1", std::to_string(args_.factor), {path_.back()});
    }
    LoneNest nest = find_sequence();
    const BlockNode& block = nest.block();
    Reduction reduction = match_reduction(block);
    std::vector<const IterVar*> reduced;
    for (const IterVar& iter : block.iters) {
      if (iter.kind == IterKind::Reduce) reduced.push_back(&iter);
    }
    bool row = reduction.reducer == Reducer::Max && is_float(reduction.store->buffer->elem) &&
               reduced.size() == 1;
    tree_.require(
        row, RefusalKind::BadStructure,
        fmt::format("block '{}' does not take the maximum of floats along one axis", args_.block),
        {path_.back()});
    maximum_ = {std::move(nest), reduction.store, reduction.value, *reduced[0], {}};
    tree_.require(maximum_.nest.loop_of(maximum_.key) != nullptr, RefusalKind::BadStructure,
                  fmt::format("iterator '{}' of block '{}' has no loop of its own",
                              maximum_.key.var.name(), args_.block),
                  {path_.back()});
    auto* choice = maximum_.value.as<SelectNode>();
    Expr lowest = identity_of(Reducer::Max, maximum_.value.type());
    if (choice && equal(choice->on_false, lowest)) maximum_.visible = choice->cond;
    require_plain_rows(block);
  }

  void require_plain_rows(const BlockNode& block) const {
    for (const IterVar& iter : block.iters) {
      if (iter.kind == IterKind::Reduce || is_int(iter.extent, 1)) continue;
      bool placed = std::any_of(maximum_.store->indices.begin(), maximum_.store->indices.end(),
                                [&](const Expr& e) { return e.same_as(iter.var); });
      tree_.require(placed, RefusalKind::Unsupported,
                    fmt::format("block '{}' does not store at its iterators", args_.block),
                    {path_.back()});
    }
  }

  const std::vector<Stmt>& siblings() const { return seq_path_.back().as<SeqNode>()->stmts; }

  // The blocks behind the maximum that follow the weights, and of the others that these do not need
  // anything which is made of weights.
  void find_weighed() {
    WeightAlgebra algebra(tree_.program(), maximum_);
    std::string reason = fmt::format("no block behind it reads '{}'", maximum_.store->buffer->name);
    bool behind = false, sums = false;
    std::vector<Stmt> outside;
    for (const Stmt& s : siblings()) {
      if (s.same_as(maximum_.nest.top)) behind = true;
      if (!behind || s.same_as(maximum_.nest.top)) continue;
      bool weights = false, maximum = false;
      for (const Stmt& leaf : leaf_blocks(s)) {
        weights |= algebra.reads_weights(*leaf.as<BlockNode>());
        maximum |= algebra.reads_maximum(*leaf.as<BlockNode>());
      }
      std::optional<LoneNest> nest = weights || maximum ? lone_nest(s) : std::nullopt;
      std::optional<Weighed> found = nest ? algebra.weigh(*nest) : std::nullopt;
      if (found) {
        require_no_detour(outside, *found);
        sums |= found->sums;
        weighed_.push_back(std::move(*found));
        continue;
      }
      outside.push_back(s);
      if (!weights && !maximum) continue;
      reason = nest ? algebra.refusal() : "weights are read in loops that hold several blocks";
      // All of the maximum is known behind the loop, but of weights only their sums.
      tree_.require(!weights, RefusalKind::Unsupported, reason, {s});
    }
    tree_.require(sums, RefusalKind::BadStructure,
                  fmt::format("nothing sums up weights of block '{}': {}", args_.block, reason),
                  {path_.back()});
    if (!algebra.hides_the_invisible()) maximum_.visible = {};
  }

  // What stays in front of the loop must neither stand between the weights and `found` nor write what
  // those before it read.
  void require_no_detour(const std::vector<Stmt>& outside, const Weighed& found) const {
    std::vector<const BlockNode*> before = {&maximum_.nest.block()};
    for (const Weighed& w : weighed_) before.push_back(&w.nest.block());
    auto share = [](const std::vector<Buffer>& a, const std::vector<Buffer>& b) {
      return std::any_of(a.begin(), a.end(), [&](const Buffer& x) {
        return std::find(b.begin(), b.end(), x) != b.end();
      });
    };
    for (const Stmt& s : outside) {
      for (const Stmt& leaf : leaf_blocks(s)) {
        const BlockNode& other = *leaf.as<BlockNode>();
        for (const BlockNode* block : before) {
          bool apart = !share(buffers_read(other), buffers_written(*block)) &&
                       !share(buffers_written(other), buffers_read(*block));
          tree_.require(
              apart, RefusalKind::Dependence,
              fmt::format("block '{}' stands between '{}' and '{}', which become one loop",
                          other.name, block->name, found.nest.block().name),
              {leaf, found.nest.stmt});
        }
      }
    }
  }

  static Buffer written_by(const BlockNode& block) { return block.body.as<StoreNode>()->buffer; }

  // Values in between are no longer those of the whole axis: nobody else may write them, nor read
  // weights.
  void require_private() const {
    std::vector<const LoneNest*> nests = {&maximum_.nest};
    for (const Weighed& w : weighed_) nests.push_back(&w.nest);
    for (const LoneNest* nest : nests) {
      Buffer buffer = written_by(nest->block());
      require_intermediate(tree_, buffer, fmt::format("block '{}' writes", nest->block().name),
                           {nest->stmt});
      bool weights = std::any_of(weighed_.begin(), weighed_.end(),
                                 [&](const Weighed& w) { return !w.sums && &w.nest == nest; });
      for (const Stmt& leaf : leaf_blocks(tree_.program().body)) {
        const BlockNode& block = *leaf.as<BlockNode>();
        bool ours = std::any_of(nests.begin(), nests.end(),
                                [&](const LoneNest* n) { return n->stmt.same_as(leaf); });
        auto has = [&](const std::vector<Buffer>& list) {
          return std::find(list.begin(), list.end(), buffer) != list.end();
        };
        bool writes = !leaf.same_as(nest->stmt) && has(buffers_written(block));
        tree_.require(!writes && (ours || !weights || !has(buffers_read(block))),
                      RefusalKind::Dependence,
                      fmt::format("block '{}' {} '{}' as well", block.name,
                                  writes ? "writes" : "reads", buffer->name),
                      {leaf, nest->stmt});
      }
    }
  }

  // What becomes of it ----------------------------------------------------------------------------
  // The sequence with the members' nests taken out, and `nests` in the place of the last one.
  Stmt replaced_members(const std::vector<Stmt>& nests) const {
    std::vector<Stmt> result;
    for (const Stmt& s : siblings()) {
      bool member = s.same_as(maximum_.nest.top);
      for (const Weighed& w : weighed_) member |= s.same_as(w.nest.top);
      if (!member) result.push_back(s);
      if (s.same_as(weighed_.back().nest.top))
        result.insert(result.end(), nests.begin(), nests.end());
    }
    return make_seq(std::move(result));
  }

  Buffer row_buffer(const std::string& suffix) {
    const Buffer& of = maximum_.store->buffer;
    return make_buffer(names_.fresh(args_.block + suffix), of->elem, of->shape, of->scope);
  }

  SpatialCopy spatial_copy(const LoneNest& nest, const ForNode* key_loop) {
    SpatialCopy copy;
    VarMap loops;
    for (const Stmt& s : nest.loops) {
      const ForNode& loop = *s.as<ForNode>();
      if (&loop == key_loop) continue;
      Var var(names_.fresh(loop.var.name() + "_row"));
      copy.loops.push_back(make_for(var, substitute(loop.min, loops),
                                    substitute(loop.extent, loops), ForKind::Serial, loop.body));
      loops[loop.var.get()] = var;
    }
    for (const IterVar& iter : nest.block().iters) {
      if (iter.kind != IterKind::Spatial) continue;
      Var var(iter.var.name());
      copy.renamed[iter.var.get()] = var;
      copy.iters.push_back({var, iter.extent, IterKind::Spatial, substitute(iter.binding, loops)});
    }
    copy.predicate = substitute(nest.block().predicate, loops);
    return copy;
  }

  // A block over the spatial iterators of a nest. One that changes what it stores counts the steps.
  Stmt spatial_block(const LoneNest& nest, const IterVar& key, const std::string& name,
                     bool updates, const std::function<Stmt(const SpatialCopy&)>& body) {
    SpatialCopy copy = spatial_copy(nest, nest.loop_of(key));
    if (updates) {
      copy.iters.push_back({Var("v" + step_.name()), steps_, IterKind::Reduce, step_});
    }
    results_.push_back(name);
    return wrap_loops(copy.loops, make_block(name, copy.iters, body(copy), {}, copy.predicate));
  }

  // The block over the keys of a step, with no init.
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
    Stmt result = make_block(old.name, iters, old.body, {}, predicate, old.allocs, old.annotations);
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

  // How many steps there are, and how many of them some row of the nests takes part in. Where that is
  // a number, there are no more.
  void count_steps() {
    Analyzer known = tree_.analyzer_at(seq_path_);
    keys_ = maximum_.key.extent;
    steps_ = known.simplify(floordiv(keys_ + Expr(args_.factor - 1), args_.factor));
    seen_steps_ = steps_;
    const Expr seen = visible_keys(known);
    if (!seen.defined()) return;
    seen_steps_ =
        known.simplify(min(steps_, floordiv(seen + Expr(args_.factor - 1), args_.factor)));
    // Of lengths that are read, and of rows in front of the first key, there may be none.
    if (known.bounds(seen_steps_).min < 0) seen_steps_ = max(seen_steps_, Expr(0));
    auto number = as_int(seen_steps_), all = as_int(keys_);
    if (!number || !all) return;
    steps_ = seen_steps_;
    keys_ = std::min(*all, *number * args_.factor);
  }

  // An upper bound of the keys in front that rows see, where they see none behind: by any of the
  // conditions that must hold.
  Expr visible_keys(Analyzer& known) {
    Expr seen;
    for (const Expr& limit : conjuncts(maximum_.visible)) {
      const Expr keys = keys_within(limit, known);
      if (keys.defined()) seen = seen.defined() ? min(seen, keys) : keys;
    }
    return seen;
  }

  Expr keys_within(const Expr& cond, Analyzer& known) {
    auto* limit = cond.as<BinaryNode>();
    if (!limit || (limit->op != BinaryOp::LE && limit->op != BinaryOp::LT)) return {};
    const Var& key = maximum_.key.var;
    Expr room = limit->b - limit->a;
    Expr less = substitute(room, {{key.get(), key + Expr(1)}});
    if (!is_int(known.simplify(less - room), -1)) return {};
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
    SteadyLoads steady(tree_.program(), loops);
    room = steady(substitute(room, bindings));
    Range rows = cover({room}, {maximum_.key.extent + Expr(1)}, loops)[0];
    Expr last = steady.restored(rows.min + rows.extent - Expr(1));
    return limit->op == BinaryOp::LE ? last + Expr(1) : last;
  }

  Tree tree_;
  const OnlineSoftmax& args_;
  Names names_;
  Path path_, seq_path_;  // to the block, and to the sequence that its nest stands in
  RowMaximum maximum_;
  std::vector<Weighed> weighed_;  // in program order
  Var step_;
  Expr keys_, steps_, seen_steps_;  // seen_steps_ may vary with the loops around
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
