#include "schedule/primitives/weight/compress_operand.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "ir/predicates.h"
#include "ir/visitor.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/loops/reduction.h"
#include "schedule/primitives/pointwise.h"
#include "schedule/primitives/weight/compress_pack.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

// The operands of the primitive, once everything is checked.
struct CompressedProduct {
  const BlockNode* block;  // the contraction
  const BlockNode* maker;  // the block that makes the operand
  const StoreNode* store;  // the maker's store
  Buffer weight, operand;
  const LoadNode* zero = nullptr;  // the zero points that the value subtracts
  int k_dim = 0, column_dim = 0;   // dimensions of operand and weight
  Expr block_k, maker_k;           // the iterators along k
  Expr block_loop, maker_loop;     // the loops of these iterators
  int64_t k = 0;                   // elements along k
};

bool is_factor(const Expr& e, const Buffer& buffer) {
  const Expr value = strip_casts(e);
  if (auto* n = value.as<LoadNode>()) return n->buffer == buffer;
  auto* n = value.as<BinaryNode>();
  return n && n->op == BinaryOp::Mul && (is_factor(n->a, buffer) || is_factor(n->b, buffer));
}

// The only load of a buffer in the statement; null where there is none or more than one.
const LoadNode* only_load(const Stmt& s, const Buffer& buffer) {
  const LoadNode* found = nullptr;
  int count = 0;
  for_each_expr(s, [&](const Expr& e) {
    auto* n = e.as<LoadNode>();
    if (!n || n->buffer != buffer) return;
    found = n;
    ++count;
  });
  return count == 1 ? found : nullptr;
}

// Requires that the block is the only one that reads the buffer (or, with `writes`, that writes
// it).
void require_alone(const Tree& tree, const BlockNode& block, const Buffer& buffer, bool writes) {
  for (const Stmt& leaf : leaf_blocks(tree.program().body)) {
    const auto& other = *leaf.as<BlockNode>();
    std::vector<Buffer> used = writes ? buffers_written(other) : buffers_read(other);
    bool uses = std::find(used.begin(), used.end(), buffer) != used.end();
    tree.require(!uses || &other == &block, RefusalKind::Unsupported,
                 fmt::format("block '{}' {} '{}' too; only block '{}' may", other.name,
                             writes ? "writes" : "reads", buffer->name, block.name),
                 {leaf});
  }
}

Stmt maker_of(const Tree& tree, const Buffer& operand) {
  for (const Stmt& leaf : leaf_blocks(tree.program().body)) {
    for (const Buffer& b : buffers_written(*leaf.as<BlockNode>())) {
      if (b == operand) return leaf;
    }
  }
  tree.refuse(RefusalKind::NotFound, fmt::format("no block makes '{}'", operand->name));
}

Buffer weight_of(const Tree& tree, const Module& module, const std::string& name) {
  auto param = std::find_if(module.main.params.begin(), module.main.params.end(),
                            [&](const Param& p) { return p.buffer->name == name; });
  tree.require(param != module.main.params.end() && param->role == ParamRole::Weight,
               RefusalKind::NotFound, fmt::format("no weight '{}'", name));
  bool packed = std::any_of(module.packs.begin(), module.packs.end(), [&](const Program& pack) {
    return pack.params.front().buffer == param->buffer ||
           pack.params.back().buffer == param->buffer;
  });
  tree.require(!packed, RefusalKind::BadArgument,
               fmt::format("'{}' is laid out already; compress a weight before that", name));
  return param->buffer;
}

// The loop that an iterator is bound to, from 0 over its whole extent.
Expr loop_of(const Tree& tree, const Path& path, const Expr& iter) {
  const auto& block = *path.back().as<BlockNode>();
  auto it = std::find_if(block.iters.begin(), block.iters.end(),
                         [&](const IterVar& v) { return v.var.same_as(iter); });
  for (const Stmt& s : loops_above(path)) {
    const ForNode& loop = *s.as<ForNode>();
    bool whole = it->binding.same_as(loop.var) && is_int(loop.min, 0) && as_int(it->extent) &&
                 as_int(loop.extent) == as_int(it->extent) && child_blocks(s).size() == 1 &&
                 !block.predicate.defined();
    if (whole) return loop.var;
  }
  tree.refuse(RefusalKind::BadStructure,
              fmt::format("iterator '{}' of block '{}' is not a loop of its own any more; compress "
                          "before the block is scheduled",
                          it->var.name(), block.name),
              {path.back()});
}

// Finds the operand's reduction dimension, and its position in both blocks.
void match_dimensions(const Tree& tree, const Stmt& s, CompressedProduct& p) {
  const LoadNode* read = only_load(p.block->body, p.operand);
  const LoadNode* made = only_load(p.maker->body, p.weight);
  const size_t rank = 2;
  bool same = read && made && read->indices.size() == rank && made->indices.size() == rank;
  int reduce = -1;
  for (size_t d = 0; d < rank && same; ++d) {
    same = made->indices[d].same_as(p.store->indices[d]) && made->indices[d].as<VarNode>();
    auto iter = std::find_if(p.block->iters.begin(), p.block->iters.end(),
                             [&](const IterVar& v) { return v.var.same_as(read->indices[d]); });
    same = same && iter != p.block->iters.end();
    if (same && iter->kind == IterKind::Reduce) reduce = reduce < 0 ? static_cast<int>(d) : 2;
  }
  tree.require(same && (reduce == 0 || reduce == 1), RefusalKind::Unsupported,
               fmt::format("'{}' is not '{}' element by element, read at a reduce and a spatial "
                           "iterator of block '{}'",
                           p.operand->name, p.weight->name, p.block->name),
               {s});
  p.k_dim = reduce;
  p.column_dim = 1 - reduce;
  p.block_k = read->indices[static_cast<size_t>(reduce)];
  p.maker_k = p.store->indices[static_cast<size_t>(reduce)];
}

// The zero points that the value subtracts from the weight's element.
const LoadNode* zero_of(const Expr& value, const Module& module, const Buffer& weight) {
  const LoadNode* zero = nullptr;
  for_each_expr(value, [&](const Expr& e) {
    auto* n = e.as<BinaryNode>();
    const LoadNode* code = n && n->op == BinaryOp::Sub ? load_under_casts(n->a) : nullptr;
    const LoadNode* less = n && n->op == BinaryOp::Sub ? load_under_casts(n->b) : nullptr;
    if (!code || !less || code->buffer != weight) return;
    for (const Param& param : module.main.params) {
      if (param.buffer == less->buffer && param.role == ParamRole::Weight) zero = less;
    }
  });
  return zero;
}

CompressedProduct match(const Tree& tree, const Module& module, const CompressOperand& c) {
  tree.require(c.keep >= 1 && c.keep <= c.of && c.of <= 64, RefusalKind::BadArgument,
               fmt::format("expected a pattern of 1 <= keep <= of <= 64, got {}:{}", c.keep, c.of));
  if (c.vector < 1) tree.bad_argument("vector", "1 or more", std::to_string(c.vector));
  Path path = tree.block(c.block);
  CompressedProduct p{};
  p.block = path.back().as<BlockNode>();
  p.operand = tree.buffer(c.operand);
  p.weight = weight_of(tree, module, c.weight);
  require_intermediate(tree, p.operand, "the block reads no copy of the weight");
  Pointwise maker = Pointwise::of(tree, maker_of(tree, p.operand));
  p.maker = maker.block;
  p.store = maker.store;
  require_alone(tree, *p.maker, p.operand, true);
  require_alone(tree, *p.block, p.operand, false);
  require_alone(tree, *p.maker, p.weight, false);
  Reduction reduction = match_reduction(*p.block);
  bool sums = reduction.value.defined() && reduction.reducer == Reducer::Sum;
  tree.require(
      sums && is_factor(reduction.value, p.operand), RefusalKind::Unsupported,
      fmt::format("block '{}' is no sum of products with '{}' as a factor", c.block, c.operand),
      {path.back()});
  match_dimensions(tree, path.back(), p);
  p.block_loop = loop_of(tree, path, p.block_k);
  p.maker_loop = loop_of(tree, maker.path, p.maker_k);
  p.k = const_shape(p.operand)[static_cast<size_t>(p.k_dim)];
  const int64_t stored = const_shape(p.weight)[static_cast<size_t>(p.k_dim)];
  tree.require(
      p.k % c.of == 0 && stored % c.of == 0, RefusalKind::Unsupported,
      fmt::format("'{}' and '{}' have {} and {} elements along k, which are no whole groups "
                  "of {}",
                  c.operand, c.weight, p.k, stored, c.of),
      {path.back()});
  p.zero = zero_of(p.store->value, module, p.weight);
  return p;
}

// The value of a kept element: indices that depend only on the group are rewritten to the kept
// rows.
class KeptValue : public Mutator {
 public:
  KeptValue(const CompressedProduct& p, const CompressOperand& c, const Buffer& values)
      : p_(p), c_(c), values_(values) {}

  bool is_whole() const { return is_whole_; }

 protected:
  Expr mutate_var(const VarNode& n, const Expr& e) override {
    is_whole_ = is_whole_ && &n != p_.maker_k.get();
    return e;
  }
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    return n.buffer == p_.weight ? load(values_, n.indices) : Mutator::mutate_load(n, e);
  }
  // k / g and k < g, where g is a multiple of the group.
  Expr mutate_binary(const BinaryNode& n, const Expr& e) override {
    auto at = as_int(n.b);
    bool of_group = n.a.same_as(p_.maker_k) && at && *at % c_.of == 0 &&
                    (n.op == BinaryOp::FloorDiv || n.op == BinaryOp::LT);
    if (!of_group) return Mutator::mutate_binary(n, e);
    return binary(n.op, n.a, Expr(*at / c_.of * c_.keep));
  }

 private:
  const CompressedProduct& p_;
  const CompressOperand& c_;
  const Buffer& values_;
  bool is_whole_ = true;
};

// The contraction's body over the kept elements.
class KeptProduct : public Mutator {
 public:
  KeptProduct(const CompressedProduct& p, const CompressOperand& c, const Buffer& operand,
              const Buffer& rows)
      : p_(p), c_(c), operand_(operand), rows_(rows) {
    at_.assign(2, Expr());
    at_[static_cast<size_t>(p.k_dim)] = p.block_k;
  }
  void column(const Expr& column) {
    Expr group = c_.vector == 1 ? column : floordiv(column, Expr(c_.vector));
    at_[static_cast<size_t>(p_.column_dim)] = group;
  }

 protected:
  Expr mutate_var(const VarNode& n, const Expr& e) override {
    if (&n != p_.block_k.get()) return e;
    Expr row = cast(ElemType::index, load(rows_, at_));
    bool byte = rows_->elem == ElemType::u8;
    if (byte && std::has_single_bit(static_cast<uint64_t>(c_.of))) row = floormod(row, Expr(c_.of));
    return floordiv(e, Expr(c_.keep)) * Expr(c_.of) + row;
  }
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    return n.buffer == p_.operand ? load(operand_, n.indices) : Mutator::mutate_load(n, e);
  }

 private:
  const CompressedProduct& p_;
  const CompressOperand& c_;
  const Buffer &operand_, &rows_;
  std::vector<Expr> at_;
};

// The program with both blocks running over `extent` elements along k.
class Shortened : public Mutator {
 public:
  Shortened(const CompressedProduct& p, Expr extent, Stmt block_body, Stmt maker_body)
      : p_(p), extent_(std::move(extent)), block_body_(std::move(block_body)),
        maker_body_(std::move(maker_body)) {}

 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    bool is_k = n.var.same_as(p_.block_loop) || n.var.same_as(p_.maker_loop);
    if (!is_k) return Mutator::mutate_for(n, s);
    return make_for(n.var, n.min, extent_, n.for_kind, mutate(n.body), n.annotations);
  }
  Stmt mutate_block(const BlockNode& n, const Stmt& s) override {
    if (&n != p_.block && &n != p_.maker) return Mutator::mutate_block(n, s);
    std::vector<IterVar> iters = n.iters;
    for (IterVar& iter : iters) {
      bool is_k = iter.var.same_as(p_.block_k) || iter.var.same_as(p_.maker_k);
      if (is_k) iter.extent = extent_;
    }
    return make_block(n.name, iters, &n == p_.block ? block_body_ : maker_body_, n.init,
                      n.predicate, n.allocs, n.annotations);
  }

 private:
  const CompressedProduct& p_;
  Expr extent_;
  Stmt block_body_, maker_body_;
};

NmPattern pattern_of(const CompressedProduct& p, const CompressOperand& c) {
  NmPattern pattern{c.keep, c.of, c.vector, p.k_dim, p.column_dim};
  pattern.rows = p.k;
  pattern.columns = const_shape(p.operand)[static_cast<size_t>(p.column_dim)];
  if (!p.zero) return pattern;
  pattern.zero = p.zero->buffer;
  pattern.zero_index = [&p](const std::vector<Expr>& at) {
    VarMap map;
    for (size_t d = 0; d < at.size(); ++d) map[p.store->indices[d].get()] = at[d];
    std::vector<Expr> indices;
    for (const Expr& index : p.zero->indices) indices.push_back(substitute(index, map));
    return indices;
  };
  return pattern;
}

}  // namespace

Applied CompressOperand::apply(const Module& module) const {
  Tree tree(kName, module.main);
  const CompressedProduct p = match(tree, module, *this);
  Compressed packed =
      compress_weight(p.weight, pattern_of(p, *this), fresh_name(module.main, weight + "_values"),
                      fresh_name(module.main, weight + "_rows"));
  KeptValue kept_value(p, *this, packed.values);
  Expr value = kept_value(p.store->value);
  tree.require(kept_value.is_whole(), RefusalKind::Unsupported,
               fmt::format("the value of block '{}' depends on more than the group of {} that an "
                           "element stands in",
                           p.maker->name, of),
               {path_to_block(module.main.body, p.maker->name).back()});
  std::vector<Expr> shape = p.operand->shape;
  shape[static_cast<size_t>(p.k_dim)] = packed.values->shape[static_cast<size_t>(p.k_dim)];
  Buffer made = make_buffer(operand, p.operand->elem, shape, p.operand->scope);

  KeptProduct product(p, *this, made, packed.rows);
  product.column(only_load(p.block->body, p.operand)->indices[static_cast<size_t>(p.column_dim)]);
  Stmt block_body = product(p.block->body);
  Stmt maker_body = make_store(made, p.store->indices, value);

  Module result = module;
  Path path = tree.block(block);
  std::string scope = scope_of(path).as<BlockNode>()->name;
  result.main.body =
      Shortened(p, shape[static_cast<size_t>(p.k_dim)], block_body, maker_body)(module.main.body);
  result.main = add_alloc(without_buffer(result.main, p.operand), scope, made);
  auto param = std::find_if(result.main.params.begin(), result.main.params.end(),
                            [&](const Param& x) { return x.buffer == p.weight; });
  param->buffer = packed.values;
  result.main.params.insert(param + 1, {packed.rows, ParamRole::Weight});
  result.packs.push_back(std::move(packed.pack_values));
  result.packs.push_back(std::move(packed.pack_rows));
  return {std::move(result), {packed.values->name, packed.rows->name}};
}

std::vector<PrimitiveEntry> compress_operand_primitives() {
  return {primitive_entry<CompressOperand>()};
}

}  // namespace tilewright
