#include "schedule/primitives/weight/compress.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "ir/arith/simplify.h"
#include "ir/predicates.h"
#include "ir/visitor.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/loops/reduction.h"
#include "schedule/primitives/weight/compress_pack.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

// The operands of the primitive, once everything is checked.
struct Contraction {
  const BlockNode* block;
  Stmt loop;  // loop of the reduction
  Buffer weight;
  size_t iter;                // position of the reduction's iterator in the block
  int k_dim, column_dim;      // dimensions of the weight
  std::vector<Expr> indices;  // indices at which the weight is read
  const LoadNode* zero;       // the weight's zero points, where they are subtracted
};

void require_pattern(const Tree& tree, const CompressNm& p) {
  tree.require(p.keep >= 1 && p.keep <= p.of && p.of <= 64, RefusalKind::BadArgument,
               fmt::format("expected a pattern of 1 <= keep <= of <= 64, got {}:{}", p.keep, p.of));
  if (p.vector < 1) tree.bad_argument("vector", "1 or more", std::to_string(p.vector));
}

Buffer find_weight(const Tree& tree, const Module& module, const std::string& name) {
  for (const Program& pack : module.packs) {
    tree.require(
        pack.params.front().buffer->name != name && pack.params.back().buffer->name != name,
        RefusalKind::BadArgument,
        fmt::format("'{}' is laid out already; compress a weight before that", name));
  }
  for (const Param& param : module.main.params) {
    if (param.buffer->name != name) continue;
    tree.require(param.role == ParamRole::Weight, RefusalKind::BadArgument,
                 fmt::format("'{}' is an {}; only a weight can be compressed at load", name,
                             name_of(param.role)));
    return param.buffer;
  }
  tree.refuse(RefusalKind::NotFound, fmt::format("no weight '{}'", name));
}

// True when `e` is a product with the weight's element as a factor (ignoring casts), so `e` is 0
// where the element is 0. The factor may also be the element minus its zero point, which is then
// noted in `c`.
bool vanishes_with(const Expr& e, const Module& module, Contraction& c) {
  const Expr value = strip_casts(e);
  if (auto* n = value.as<LoadNode>()) return n->buffer == c.weight;
  auto* n = value.as<BinaryNode>();
  if (n && n->op == BinaryOp::Mul) {
    return vanishes_with(n->a, module, c) || vanishes_with(n->b, module, c);
  }
  if (!n || n->op != BinaryOp::Sub) return false;
  const LoadNode *q = load_under_casts(n->a), *zero = load_under_casts(n->b);
  if (!q || !zero || q->buffer != c.weight || zero->buffer == c.weight) return false;
  bool packed = std::any_of(module.packs.begin(), module.packs.end(), [&](const Program& pack) {
    return pack.params.back().buffer == zero->buffer;
  });
  bool stored = std::any_of(module.main.params.begin(), module.main.params.end(), [&](auto& p) {
    return p.buffer == zero->buffer && p.role == ParamRole::Weight;
  });
  if (!stored || packed) return false;
  c.zero = zero;
  return true;
}

// The indices of the weight's loads in the block. All loads in the program must be in this block
// and at equal indices.
std::vector<Expr> indices_of_weight(const Tree& tree, const Stmt& s, const Buffer& weight) {
  std::vector<Expr> indices;
  for (const Stmt& leaf : leaf_blocks(tree.program().body)) {
    for_each_expr(leaf, [&](const Expr& e) {
      auto* n = e.as<LoadNode>();
      if (!n || n->buffer != weight) return;
      tree.require(leaf.same_as(s), RefusalKind::Unsupported,
                   fmt::format("block '{}' reads '{}' too; only the contraction may",
                               leaf.as<BlockNode>()->name, weight->name),
                   {leaf});
      bool same =
          indices.empty() || std::equal(indices.begin(), indices.end(), n->indices.begin(),
                                        [](const Expr& a, const Expr& b) { return a.same_as(b); });
      tree.require(same && !n->predicate.defined(), RefusalKind::Unsupported,
                   fmt::format("'{}' is read at more than one place", weight->name), {s});
      indices = n->indices;
    });
  }
  tree.require(!indices.empty(), RefusalKind::BadArgument,
               fmt::format("block '{}' does not read '{}'", s.as<BlockNode>()->name, weight->name),
               {s});
  return indices;
}

// Finds the weight's reduction dimension (k) and its column dimension.
void match_dimensions(const Tree& tree, const Stmt& s, const CompressNm& p, Contraction& c) {
  c.indices = indices_of_weight(tree, s, c.weight);
  c.k_dim = c.column_dim = -1;
  bool several = false;  // several dimensions are summed over
  for (size_t d = 0; d < c.indices.size(); ++d) {
    auto iter = std::find_if(c.block->iters.begin(), c.block->iters.end(),
                             [&](const IterVar& v) { return v.var.same_as(c.indices[d]); });
    bool plain = iter != c.block->iters.end();
    bool summed = plain && iter->kind == IterKind::Reduce;
    tree.require(plain, RefusalKind::Unsupported,
                 fmt::format("'{}' is not read at iterators, one a dimension", c.weight->name),
                 {s});
    several = several || (summed && c.k_dim >= 0);
    (summed ? c.k_dim : c.column_dim) = static_cast<int>(d);
    if (summed) c.iter = static_cast<size_t>(iter - c.block->iters.begin());
  }
  tree.require(
      c.k_dim >= 0 && c.column_dim >= 0, RefusalKind::Unsupported,
      fmt::format("'{}' has no dimension that is summed over, or no columns", c.weight->name), {s});
  int64_t last = const_shape(c.weight)[static_cast<size_t>(c.k_dim)];
  tree.require(!several || last % p.of == 0, RefusalKind::Unsupported,
               fmt::format("groups of {} rows run on from one row of the window to the next: the "
                           "last reduction dimension of '{}' has {} elements",
                           p.of, c.weight->name, last),
               {s});
}

// The last group may have fewer rows than are kept. The values that fill the missing rows
// contribute nothing only if the stored type holds every zero point.
void require_padding(const Tree& tree, const Stmt& s, const Contraction& c, const CompressNm& p) {
  if (!c.zero || c.zero->buffer->elem == c.weight->elem) return;
  int64_t tail = const_shape(c.weight)[static_cast<size_t>(c.k_dim)] % p.of;
  tree.require(tail == 0 || tail >= p.keep, RefusalKind::Unsupported,
               fmt::format("the last group of '{}' has {} rows of {}, and {} does not hold every "
                           "zero point of type {}",
                           c.weight->name, tail, p.keep, to_string(c.weight->elem),
                           to_string(c.zero->buffer->elem)),
               {s});
}

Contraction match(const Tree& tree, const Module& module, const CompressNm& p) {
  require_pattern(tree, p);
  Path path = tree.block(p.block);
  const Stmt& s = path.back();
  Contraction c{};
  c.block = s.as<BlockNode>();
  c.weight = find_weight(tree, module, p.buffer);
  match_dimensions(tree, s, p, c);
  Reduction reduction = match_reduction(*c.block);
  bool sums = reduction.value.defined() && reduction.reducer == Reducer::Sum;
  tree.require(
      sums && vanishes_with(reduction.value, module, c), RefusalKind::Unsupported,
      fmt::format("block '{}' is no sum of products with '{}' as a factor: its zeros would "
                  "count",
                  p.block, p.buffer),
      {s});
  require_padding(tree, s, c, p);
  const IterVar& iter = c.block->iters[c.iter];
  for (const Stmt& loop : loops_above(path)) {
    if (iter.binding.same_as(loop.as<ForNode>()->var)) c.loop = loop;
  }
  bool whole = c.loop.defined() && is_int(c.loop.as<ForNode>()->min, 0) && as_int(iter.extent) &&
               as_int(c.loop.as<ForNode>()->extent) == as_int(iter.extent) &&
               child_blocks(c.loop).size() == 1 && !c.block->predicate.defined();
  tree.require(
      whole, RefusalKind::BadStructure,
      fmt::format("iterator '{}' of block '{}' is not a loop of its own any more; compress "
                  "before the block is scheduled",
                  iter.var.name(), p.block),
      {s});
  return c;
}

// Rewrites the block's body to run over the kept elements.
class KeptRewriter : public Mutator {
 public:
  KeptRewriter(const Contraction& c, const CompressNm& p, const Compressed& packed)
      : c_(c), p_(p), packed_(packed), k_(c.block->iters[c.iter].var) {}

 protected:
  Expr mutate_var(const VarNode& n, const Expr& e) override {
    return &n == k_.get() ? group() * Expr(p_.of) + row() : e;
  }

  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    return n.buffer == c_.weight ? load(packed_.values, n.indices) : Mutator::mutate_load(n, e);
  }

  // A quotient by a multiple of the group does not depend on the row within the group.
  Expr mutate_binary(const BinaryNode& n, const Expr& e) override {
    auto divisor = as_int(n.b);
    if (n.op != BinaryOp::FloorDiv || !divisor || *divisor % p_.of != 0) {
      return Mutator::mutate_binary(n, e);
    }
    if (n.a.same_as(k_)) return floordiv(group(), Expr(*divisor / p_.of));
    Expr rest = simplify(n.a - k_);
    bool whole = !uses_var(rest, c_.block->iters[c_.iter].var) &&
                 is_int(simplify(floormod(rest, Expr(p_.of))), 0);
    if (!whole) return Mutator::mutate_binary(n, e);
    return floordiv(rest + group() * Expr(p_.of), n.b);
  }

 private:
  Expr group() const { return floordiv(k_, Expr(p_.keep)); }
  // The type of rows stored in a byte has a wider range than the rows; the modulo restores their
  // bound.
  Expr row() const {
    Expr row = cast(ElemType::index, load(packed_.rows, packed_.index));
    bool byte = packed_.rows->elem == ElemType::u8;
    return byte && std::has_single_bit(static_cast<uint64_t>(p_.of)) ? floormod(row, Expr(p_.of))
                                                                     : row;
  }

  const Contraction& c_;
  const CompressNm& p_;
  const Compressed& packed_;
  Expr k_;
};

}  // namespace

Applied CompressNm::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Contraction c = match(tree, module, *this);
  NmPattern pattern{keep, of, vector, c.k_dim, c.column_dim};
  if (c.zero) {
    pattern.zero = c.zero->buffer;
    pattern.zero_index = [&c](const std::vector<Expr>& at) {
      VarMap map;
      for (size_t d = 0; d < at.size(); ++d) map[c.indices[d].as<VarNode>()] = at[d];
      std::vector<Expr> indices;
      for (const Expr& index : c.zero->indices) indices.push_back(substitute(index, map));
      return indices;
    };
  }
  Module result = module;
  Compressed packed =
      compress_weight(c.weight, pattern, fresh_name(module.main, buffer + "_values"),
                      fresh_name(module.main, buffer + "_rows"));
  packed.index = c.indices;
  packed.index[static_cast<size_t>(c.column_dim)] =
      floordiv(packed.index[static_cast<size_t>(c.column_dim)], Expr(vector));

  const Expr extent = packed.values->shape[static_cast<size_t>(c.k_dim)];
  std::vector<IterVar> iters = c.block->iters;
  iters[c.iter].extent = extent;
  KeptRewriter rewrite(c, *this, packed);
  Stmt body = rewrite(c.block->body);
  Stmt block_now = make_block(c.block->name, iters, body, c.block->init, c.block->predicate,
                              c.block->allocs, c.block->annotations);
  const ForNode& loop = *c.loop.as<ForNode>();
  Stmt inner = replace_stmt(loop.body, c.block, block_now);
  Stmt loop_now = make_for(loop.var, loop.min, extent, loop.for_kind, inner, loop.annotations);
  result.main = replace_stmt(module.main, c.loop.get(), loop_now);

  auto param = std::find_if(result.main.params.begin(), result.main.params.end(),
                            [&](const Param& p) { return p.buffer == c.weight; });
  param->buffer = packed.values;
  result.main.params.insert(param + 1, {packed.rows, ParamRole::Weight});
  result.packs.push_back(std::move(packed.pack_values));
  result.packs.push_back(std::move(packed.pack_rows));
  return {std::move(result), {packed.values->name, packed.rows->name}};
}

std::vector<PrimitiveEntry> compress_primitives() { return {primitive_entry<CompressNm>()}; }

}  // namespace tilewright
