#include "schedule/primitives/softmax/split_softmax.h"

#include <fmt/core.h>

#include <functional>
#include <map>
#include <utility>

#include "ir/arith/simplify.h"
#include "ir/buffer.h"
#include "ir/predicates.h"
#include "ir/text/printer.h"
#include "ir/visitor.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/softmax/softmax_nests.h"

namespace tilewright {
namespace {

std::vector<Expr> in_front(const Expr& first, const std::vector<Expr>& others) {
  std::vector<Expr> all = {first};
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

// A block's value in one part. Keys are those of the part, and values that members store per part
// are read from there.
class InPart : public Mutator {
 public:
  InPart(const std::map<const BufferNode*, Buffer>& own, Var part, Var key, Expr place)
      : own_(own), part_(std::move(part)), key_(std::move(key)), place_(std::move(place)) {}

 protected:
  Expr mutate_var(const VarNode& n, const Expr& e) override {
    return &n == key_.get() ? place_ : e;
  }
  // Weights are indexed by the key within their part.
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    auto it = own_.find(n.buffer.get());
    if (it == own_.end()) return Mutator::mutate_load(n, e);
    return load(it->second, in_front(part_, n.indices));
  }

 private:
  const std::map<const BufferNode*, Buffer>& own_;
  Var part_, key_;
  Expr place_;
};

class Splitter : SoftmaxNests {
 public:
  Splitter(const SplitSoftmax& args, const Module& module)
      : SoftmaxNests(SplitSoftmax::kName, module.main, args.block), args_(args) {
    const Expr& keys = maximum_.key.extent;
    if (args_.parts < 1 || !is_int(simplify(floormod(keys, Expr(args_.parts))), 0)) {
      tree_.bad_argument("parts",
                         fmt::format("a divisor of the {} values along '{}'", to_string(keys),
                                     maximum_.key.var.name()),
                         std::to_string(args_.parts), {path_.back()});
    }
    keys_ = simplify(floordiv(keys, Expr(args_.parts)));
    require_plain(maximum_.nest);
    for (const Weighed& w : weighed_) require_plain(w.nest);
  }

  Applied split(const Module& module) {
    add_own(maximum_.nest, {});
    for (const Weighed& w : weighed_) add_own(w.nest, w.sums ? Var() : w.key.var);
    std::vector<Stmt> nests = {in_part(maximum_.nest, maximum_.key)};
    for (const Weighed& w : weighed_) nests.push_back(in_part(w.nest, w.key));
    nests.push_back(copied(maximum_.nest, maximum_.key));
    for (const Weighed& w : weighed_) {
      if (w.sums) nests.push_back(copied(w.nest, w.key));
    }
    nests.push_back(together(maximum_.nest, maximum_.key, [&](const SpatialCopy&, const Expr& e) {
      return std::pair{BinaryOp::Max, e};
    }));
    nests.push_back(scales());
    for (const Weighed& w : weighed_) {
      if (!w.sums) continue;
      nests.push_back(together(w.nest, w.key, [&](const SpatialCopy& copy, const Expr& sum) {
        const Expr scale = load(scale_, in_front(part_, copy.at(w.rows)));
        const Expr zero = make_const(sum.type(), 0);
        const Expr share = sum * cast(sum.type(), scale);
        return std::pair{BinaryOp::Add, select(scale > make_const(scale.type(), 0), share, zero)};
      }));
    }
    Module result = module;
    result.main = tree_.replaced(seq_path_, replaced_members(nests));
    const std::string& scope = scope_of(path_).as<BlockNode>()->name;
    for (const Buffer& b : made_) result.main = add_alloc(result.main, scope, b);
    for (const Weighed& w : weighed_) {
      if (!w.sums) drop(result.main, scope, w.nest.block().body.as<StoreNode>()->buffer);
    }
    return {std::move(result), results_};
  }

 private:
  void require_plain(const LoneNest& nest) const {
    tree_.require(!nest.block().predicate.defined(), RefusalKind::Unsupported,
                  fmt::format("block '{}' has a predicate", nest.block().name), {nest.stmt});
  }

  // Drops a buffer that nobody reads any more: the parts hold the weights instead.
  static void drop(Program& program, const std::string& scope, const Buffer& buffer) {
    const Stmt block = path_to_block(program.body, scope).back();
    const BlockNode& n = *block.as<BlockNode>();
    std::vector<Buffer> allocs = n.allocs;
    std::erase(allocs, buffer);
    program = replace_stmt(program, &n, with_allocs(n, std::move(allocs)));
  }

  Buffer made(const std::string& name, const Buffer& of, std::vector<Expr> shape) {
    shape.insert(shape.begin(), Expr(args_.parts));
    made_.push_back(make_buffer(names_.fresh(name), of->elem, std::move(shape), of->scope));
    return made_.back();
  }

  // Makes the buffer for the parts' values; a dimension along the keys has the extent of one part.
  void add_own(const LoneNest& nest, const Var& key) {
    const StoreNode& store = *nest.block().body.as<StoreNode>();
    std::vector<Expr> shape = store.buffer->shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (key.defined() && store.indices[d].same_as(key)) shape[d] = keys_;
    }
    own_[store.buffer.get()] = made(store.buffer->name + "_own", store.buffer, std::move(shape));
  }

  // A loop over the parts, and the iterator bound to it.
  struct Parts {
    Var loop, iter;
  };
  Parts parts() {
    const std::string name = names_.fresh(block_ + "_p");
    return {Var(name), Var("v" + name)};
  }
  Stmt over_parts(const Parts& p, const Stmt& body) const {
    return make_for(p.loop, 0, Expr(args_.parts), ForKind::Serial, body);
  }

  // The nest over the keys of each part.
  Stmt in_part(const LoneNest& nest, const IterVar& key) {
    const BlockNode& old = nest.block();
    const ForNode* key_loop = nest.loop_of(key);
    const Parts p = parts();
    std::vector<IterVar> iters = {{p.iter, Expr(args_.parts), IterKind::Spatial, p.loop}};
    for (const IterVar& iter : old.iters) {
      iters.push_back(iter);
      if (iter.var.same_as(key.var)) iters.back().extent = keys_;
    }
    InPart here(own_, p.iter, key.var, p.iter * keys_ + key.var);
    auto stored = [&](const Stmt& s) {
      auto* store = s.as<StoreNode>();
      return make_store(own_.at(store->buffer.get()), in_front(p.iter, store->indices),
                        here(store->value));
    };
    const Stmt init = old.init.defined() ? stored(old.init) : Stmt();
    Stmt result =
        make_block(old.name, iters, stored(old.body), init, {}, old.allocs, old.annotations);
    for (size_t i = nest.loops.size(); i-- > 0;) {
      const ForNode& loop = *nest.loops[i].as<ForNode>();
      result = make_for(loop.var, loop.min, &loop == key_loop ? keys_ : loop.extent, loop.for_kind,
                        result, loop.annotations);
    }
    return over_parts(p, result);
  }

  // Copies the values that a nest passes on to the blocks that combine the parts.
  Stmt copied(const LoneNest& nest, const IterVar& key) {
    const StoreNode& store = *nest.block().body.as<StoreNode>();
    const Buffer& own = own_.at(store.buffer.get());
    const Buffer to = part_of_[store.buffer.get()] =
        made(nest.block().name + "_part", store.buffer, store.buffer->shape);
    SpatialCopy copy = spatial_copy(nest, nest.loop_of(key));
    const Parts p = parts();
    copy.iters.insert(copy.iters.begin(), {p.iter, Expr(args_.parts), IterKind::Spatial, p.loop});
    const std::vector<Expr> at = in_front(p.iter, copy.at(store.indices));
    return over_parts(p, block_of(copy, to->name, make_store(to, at, load(own, at)), {}));
  }

  // A reduction over the parts into the buffer that the nest stored to. `step` gives the operation
  // and a part's term.
  Stmt together(
      const LoneNest& nest, const IterVar& key,
      const std::function<std::pair<BinaryOp, Expr>(const SpatialCopy&, const Expr&)>& step) {
    const StoreNode& store = *nest.block().body.as<StoreNode>();
    SpatialCopy copy = spatial_copy(nest, nest.loop_of(key));
    const Parts p = parts();
    part_ = p.iter;
    copy.loops.push_back(over_parts(p, nest.block().body));
    copy.iters.push_back({p.iter, Expr(args_.parts), IterKind::Reduce, p.loop});
    const std::vector<Expr> at = copy.at(store.indices);
    const auto [op, term] = step(copy, load(part_of_.at(store.buffer.get()), in_front(p.iter, at)));
    const Expr start = identity_of(op == BinaryOp::Max ? Reducer::Max : Reducer::Sum, term.type());
    return block_of(copy, names_.fresh(nest.block().name + "_all"),
                    make_store(store.buffer, at, binary(op, load(store.buffer, at), term)),
                    make_store(store.buffer, at, start));
  }

  // The factor that rescales a part's sums to the overall maximum.
  Stmt scales() {
    const StoreNode& store = *maximum_.store;
    SpatialCopy copy = spatial_copy(maximum_.nest, maximum_.nest.loop_of(maximum_.key));
    const Parts p = parts();
    copy.iters.insert(copy.iters.begin(), {p.iter, Expr(args_.parts), IterKind::Spatial, p.loop});
    const std::vector<Expr> row = copy.at(store.indices), at = in_front(p.iter, row);
    scale_ = made(block_ + "_scale", store.buffer, store.buffer->shape);
    const Expr top = load(part_of_.at(store.buffer.get()), at);
    const Expr scale = unary(UnaryOp::Exp, top - load(store.buffer, row));
    const Expr value =
        select(top > identity_of(Reducer::Max, top.type()), scale, make_const(top.type(), 0));
    return over_parts(p, block_of(copy, scale_->name, make_store(scale_, at, value), {}));
  }

  Stmt block_of(const SpatialCopy& copy, const std::string& name, const Stmt& body,
                const Stmt& init) {
    results_.push_back(name);
    return wrap_loops(copy.loops, make_block(name, copy.iters, body, init));
  }

  const SplitSoftmax& args_;
  Expr keys_;                                          // keys of a part
  std::map<const BufferNode*, Buffer> own_, part_of_;  // keyed by the member's buffer
  Buffer scale_;
  Var part_;  // iterator over the parts in the blocks that combine them
  std::vector<Buffer> made_;
  std::vector<std::string> results_;
};

}  // namespace

Applied SplitSoftmax::apply(const Module& module) const {
  return Splitter(*this, module).split(module);
}

std::vector<PrimitiveEntry> split_softmax_primitives() { return {primitive_entry<SplitSoftmax>()}; }

}  // namespace tilewright
