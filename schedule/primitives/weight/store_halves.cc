#include "schedule/primitives/weight/store_halves.h"

#include <fmt/core.h>

#include "ir/predicates.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/loops/reduction.h"
#include "schedule/primitives/pointwise.h"

namespace tilewright {
namespace {

constexpr int kHalves = 2;

bool reads(const BlockNode& block, const Buffer& buffer) {
  for (const Buffer& b : buffers_read(block)) {
    if (b == buffer) return true;
  }
  return false;
}

// True when the value is a product with an element of the buffer as a factor.
bool has_factor(const Expr& value, const Buffer& buffer) {
  if (auto* n = value.as<CastNode>()) return has_factor(n->value, buffer);
  if (auto* n = value.as<BinaryNode>()) {
    auto reads_it = [&](const Expr& e) {
      bool found = false;
      for_each_expr(e, [&](const Expr& x) {
        auto* load = x.as<LoadNode>();
        found |= load && load->buffer == buffer;
      });
      return found;
    };
    if (n->op != BinaryOp::Mul || reads_it(n->a) == reads_it(n->b)) return false;
    return has_factor(reads_it(n->a) ? n->a : n->b, buffer);
  }
  auto* load = value.as<LoadNode>();
  return load && load->buffer == buffer;
}

Expr half_of(const Expr& value, const Expr& half, ElemType type) {
  if (auto* n = value.as<SelectNode>(); n && is_zero(n->on_false)) {
    return select(n->cond, half_of(n->on_true, half, type), make_const(type, 0));
  }
  Expr high = cast(type, value);
  Expr low = cast(type, value - cast(value.type(), high));
  return select(eq(half, 0), high, low);
}

// Rewrites the writing block, with an iterator over the halves in front, and the reading blocks,
// with one more reduce iterator.
class HalvedStores : public Mutator {
 public:
  HalvedStores(const Pointwise& of, Buffer to, const Program& program)
      : of_(of), to_(std::move(to)), names_(program) {}

 protected:
  Stmt mutate_block(const BlockNode& n, const Stmt& s) override {
    const bool writes = &n == of_.block;
    if (!writes && (!child_blocks(n.body).empty() || !reads(n, of_.store->buffer))) {
      return Mutator::mutate_block(n, s);
    }
    Var loop(names_.fresh("half"));
    half_ = Var("v" + loop.name());
    IterVar iter{half_, Expr(kHalves), writes ? IterKind::Spatial : IterKind::Reduce, loop};
    std::vector<IterVar> iters = n.iters;
    iters.insert(writes ? iters.begin() : iters.end(), iter);
    Stmt block = make_block(n.name, std::move(iters), mutate(n.body), n.init, n.predicate, n.allocs,
                            n.annotations);
    return make_for(loop, 0, kHalves, ForKind::Serial, block);
  }
  Stmt mutate_store(const StoreNode& n, const Stmt& s) override {
    if (n.buffer != of_.store->buffer) return Mutator::mutate_store(n, s);
    return make_store(to_, with_half(n.indices), half_of(n.value, half_, to_->elem));
  }
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    if (n.buffer != of_.store->buffer) return Mutator::mutate_load(n, e);
    return cast(n.type, load(to_, with_half(n.indices), n.predicate));
  }

 private:
  std::vector<Expr> with_half(std::vector<Expr> indices) const {
    indices.insert(indices.begin(), half_);
    return indices;
  }

  const Pointwise& of_;
  Buffer to_;
  Names names_;
  Var half_;  // the half's iterator in the current block
};

}  // namespace

Applied StoreHalves::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Pointwise of = Pointwise::find(tree, block);
  const Buffer& from = of.store->buffer;
  require_intermediate(tree, from, "its elements are needed outside", {of.stmt()});
  auto to_type = parse_elem_type(type);
  if (to_type != ElemType::f16 && to_type != ElemType::bf16) {
    tree.bad_argument("type", "f16 or bf16", type, {of.stmt()});
  }
  tree.require(from->elem == ElemType::f32, RefusalKind::Unsupported,
               fmt::format("'{}' has elements of {}; f32 are stored as halves", from->name,
                           to_string(from->elem)),
               {of.stmt()});
  for (const Stmt& leaf : leaf_blocks(module.main.body)) {
    const BlockNode& other = *leaf.as<BlockNode>();
    if (&other == of.block) continue;
    bool writes = false;
    for (const Buffer& b : buffers_written(other)) writes |= b == from;
    tree.require(!writes, RefusalKind::Dependence,
                 fmt::format("block '{}' also writes '{}', the buffer of block '{}'", other.name,
                             from->name, block),
                 {of.stmt(), leaf});
    if (!reads(other, from)) continue;
    Reduction sum = match_reduction(other);
    tree.require(sum.reducer == Reducer::Sum && has_factor(sum.value, from),
                 RefusalKind::Unsupported,
                 fmt::format("block '{}' does not sum products with '{}' as one factor", other.name,
                             from->name),
                 {leaf});
  }
  std::vector<Expr> shape = from->shape;
  shape.insert(shape.begin(), Expr(kHalves));
  Buffer to = make_buffer(from->name, *to_type, shape, from->scope);
  Module result = module;
  std::string scope = scope_of(of.path).as<BlockNode>()->name;
  result.main.body = HalvedStores(of, to, module.main)(module.main.body);
  result.main = add_alloc(without_buffer(result.main, from), scope, to);
  return {std::move(result), {}};
}

std::vector<PrimitiveEntry> store_halves_primitives() { return {primitive_entry<StoreHalves>()}; }

}  // namespace tilewright
