#include "schedule/primitives/layout/relayout.h"

#include <fmt/core.h>

#include "base/error.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

class Relayouter : public Mutator {
 public:
  Relayouter(const Program& program, const Buffer& from, const Buffer& to, const IndexMap& map)
      : from_(from), to_(to), map_(map) {
    for (const DimVar& dim : program.dims) known_.bind(dim.var, Interval{dim.min, dim.max});
  }

 protected:
  Buffer mutate_buffer(const Buffer& b) override { return b == from_ ? to_ : b; }

  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    if (n.buffer != from_) return Mutator::mutate_load(n, e);
    bool changed = false;
    return load(to_, mapped(mutate_all(n.indices, &changed)));
  }

  Stmt mutate_store(const StoreNode& n, const Stmt& s) override {
    if (n.buffer != from_) return Mutator::mutate_store(n, s);
    bool changed = false;
    return make_store(to_, mapped(mutate_all(n.indices, &changed)), mutate(n.value), {},
                      n.is_async);
  }

  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    known_.push();
    known_.bind(n.var, n.min, n.extent);
    Stmt result = Mutator::mutate_for(n, s);
    known_.pop();
    return result;
  }

  Stmt mutate_block(const BlockNode& n, const Stmt& s) override {
    known_.push();
    for (const IterVar& iter : n.iters) known_.bind(iter.var, 0, iter.extent);
    Stmt result = Mutator::mutate_block(n, s);
    known_.pop();
    return result;
  }

 private:
  std::vector<Expr> mapped(const std::vector<Expr>& indices) {
    std::vector<Expr> physical = map_.apply(indices);
    for (Expr& e : physical) e = known_.simplify(e);
    return physical;
  }

  const Buffer& from_;
  const Buffer& to_;
  const IndexMap& map_;
  Analyzer known_;
};

}  // namespace

Bijection require_bijection(const Tree& tree, const IndexMap& map, const std::vector<Expr>& shape,
                            const std::string& what, std::vector<Stmt> where) {
  tree.require(map.inputs.size() == shape.size(), RefusalKind::BadArgument,
               fmt::format("the map {} has {} inputs; {} has {}", map.str(), map.inputs.size(),
                           what, shape.size()),
               where);
  try {
    Bijection result{map.image(shape), map.inverse(shape)};
    // An extent whose range contains a single value becomes that number, as in loops: the verifier
    // counts iterations by it.
    Analyzer known = tree.analyzer_at({});
    for (Expr& extent : result.image) extent = known.simplify(extent);
    return result;
  } catch (const IrError& e) {
    tree.refuse(RefusalKind::BadArgument,
                fmt::format("the map {} cannot be inverted on {}: {}", map.str(), what, e.what()),
                std::move(where));
  }
}

void require_plain_accesses(const Tree& tree, const Buffer& buffer) {
  for (const Stmt& block : leaf_blocks(tree.program().body)) {
    bool plain = true;
    auto check = [&](const std::vector<Expr>& indices, const Expr& predicate) {
      plain = plain && !predicate.defined();
      for (const Expr& i : indices) plain = plain && i.type().is_scalar();
    };
    for_each_expr(block, [&](const Expr& e) {
      auto* load = e.as<LoadNode>();
      if (load && load->buffer == buffer) check(load->indices, load->predicate);
    });
    for_each_stmt(block, [&](const Stmt& s) {
      auto* store = s.as<StoreNode>();
      if (store && store->buffer == buffer) check(store->indices, store->predicate);
    });
    tree.require(plain, RefusalKind::Unsupported,
                 fmt::format("block '{}' accesses '{}' under a predicate or as a vector",
                             block.as<BlockNode>()->name, buffer->name),
                 {block});
  }
}

Stmt relaid(const Program& program, const Buffer& from, const Buffer& to, const IndexMap& map) {
  return Relayouter(program, from, to, map)(program.body);
}

Expr inside_condition(const std::vector<Expr>& logical, const std::vector<Expr>& shape,
                      Analyzer& known) {
  Expr condition;
  for (size_t d = 0; d < logical.size(); ++d) {
    Expr low = Expr(0) <= logical[d], high = logical[d] < shape[d];
    if (!known.prove(low)) condition = conjunction(condition, low);
    if (!known.prove(high)) condition = conjunction(condition, high);
  }
  return condition;
}

}  // namespace tilewright
