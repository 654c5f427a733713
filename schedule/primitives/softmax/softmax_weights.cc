#include "schedule/primitives/softmax/softmax_weights.h"

#include <fmt/core.h>

#include <algorithm>

#include "ir/compare.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

bool reads(const Expr& e, const BufferNode* buffer) {
  bool found = false;
  for_each_expr(e, [&](const Expr& x) {
    auto* n = x.as<LoadNode>();
    found |= n && n->buffer.get() == buffer;
  });
  return found;
}

}  // namespace

std::optional<LoneNest> lone_nest(const Stmt& top) {
  LoneNest nest{top, {}, {}};
  Stmt s = top;
  while (auto* loop = s.as<ForNode>()) {
    if (loop->for_kind != ForKind::Serial) return std::nullopt;
    nest.loops.push_back(s);
    s = loop->body;
  }
  if (!s.as<BlockNode>() || !child_blocks(s).empty()) return std::nullopt;
  nest.stmt = s;
  return nest;
}

const ForNode* LoneNest::loop_of(const IterVar& iter) const {
  for (const Stmt& s : loops) {
    const ForNode& loop = *s.as<ForNode>();
    if (!iter.binding.same_as(loop.var)) continue;
    bool alone = is_int(loop.min, 0) && equal(loop.extent, iter.extent) &&
                 !uses_var(block().predicate, loop.var);
    for (const IterVar& other : block().iters) {
      alone &= other.var.same_as(iter.var) || !uses_var(other.binding, loop.var);
    }
    return alone ? &loop : nullptr;
  }
  return nullptr;
}

bool WeightAlgebra::reads_weights(const BlockNode& block) const {
  std::vector<Buffer> read = buffers_read(block);
  return std::any_of(read.begin(), read.end(),
                     [&](const Buffer& b) { return stored_.contains(b.get()); });
}

bool WeightAlgebra::reads_maximum(const BlockNode& block) const {
  std::vector<Buffer> read = buffers_read(block);
  return std::find(read.begin(), read.end(), maximum_.store->buffer) != read.end();
}

bool WeightAlgebra::depends(const Expr& e) const {
  bool found = reads(e, maximum_.store->buffer.get());
  for (const auto& [buffer, stored] : stored_) found = found || reads(e, buffer);
  for (const BufferNode* buffer : sums_) found = found || reads(e, buffer);
  return found;
}

std::optional<WeightAlgebra::Degree> WeightAlgebra::fail(std::string why) {
  refusal_ = fmt::format("block '{}' {}", block_->name, why);
  return std::nullopt;
}

std::optional<WeightAlgebra::Degree> WeightAlgebra::meet(Degree a, Degree b) {
  if (a == Degree::Any) return b;
  if (b == Degree::Any || a == b) return a;
  return fail("mixes weights with what does not follow the maximum");
}

Expr WeightAlgebra::of_maximum(const Expr& e, const std::vector<Expr>& rows,
                               const Expr& key) const {
  VarMap map;
  for (const IterVar& iter : maximum_.nest.block().iters) map[iter.var.get()] = 0;
  for (size_t d = 0; d < rows.size(); ++d) {
    const Expr& index = maximum_.store->indices[d];
    if (index.as<VarNode>()) map[index.get()] = rows[d];
  }
  map[maximum_.key.var.get()] = key;
  return substitute(e, map);
}

// Requires that all weights of a block have the same row and key.
bool WeightAlgebra::take(const Expr& key, std::vector<Expr> rows) {
  bool same = !key_.defined() ||
              (key_.same_as(key) && std::equal(rows.begin(), rows.end(), rows_.begin(), rows_.end(),
                                               [](auto& a, auto& b) { return equal(a, b); }));
  for (const Expr& row : rows) same &= !uses_var(row, key);
  if (!same) {
    fail("joins weights of different rows or keys");
    return false;
  }
  key_ = key;
  rows_ = std::move(rows);
  return true;
}

std::optional<WeightAlgebra::Degree> WeightAlgebra::degree_of_exp(const UnaryNode& e) {
  auto* difference = e.a.as<BinaryNode>();
  auto* subtracted =
      difference && difference->op == BinaryOp::Sub ? difference->b.as<LoadNode>() : nullptr;
  bool ours = e.op == UnaryOp::Exp && subtracted && subtracted->buffer == maximum_.store->buffer &&
              !depends(difference->a);
  if (!ours) {
    return fail(fmt::format("uses '{}' other than in exp(x - {}[…])", maximum_.store->buffer->name,
                            maximum_.store->buffer->name));
  }
  for (const IterVar& iter : block_->iters) {
    bool of_row = std::any_of(subtracted->indices.begin(), subtracted->indices.end(),
                              [&](const Expr& index) { return uses_var(index, iter.var); });
    Expr x = known_.simplify(of_maximum(maximum_.value, subtracted->indices, iter.var));
    if (of_row || !equal(x, difference->a) || !uses_var(x, iter.var)) continue;
    if (!take(iter.var, subtracted->indices)) return std::nullopt;
    return Degree::One;
  }
  return fail(fmt::format("takes weights from '{}', which is not the maximum of what they are of",
                          maximum_.store->buffer->name));
}

std::optional<WeightAlgebra::Degree> WeightAlgebra::degree_of_load(const LoadNode& e) {
  auto found = stored_.find(e.buffer.get());
  if (sums_.contains(e.buffer.get())) {
    return fail(fmt::format("reads weights and their sum '{}', which is not complete by then",
                            e.buffer->name));
  }
  if (found == stored_.end()) {
    return fail(
        fmt::format("uses '{}' other than in exp(x - {}[…])", e.buffer->name, e.buffer->name));
  }
  const Stored& stored = found->second;
  const Expr& key = e.indices[stored.key];
  if (!key.as<VarNode>()) {
    return fail(
        fmt::format("reads '{}' at another place than one key after the other", e.buffer->name));
  }
  VarMap map;
  for (size_t d = 0; d < stored.dims.size(); ++d) {
    if (stored.dims[d].as<VarNode>()) map[stored.dims[d].get()] = e.indices[d];
  }
  std::vector<Expr> rows;
  for (const Expr& row : stored.rows) rows.push_back(known_.simplify(substitute(row, map)));
  if (!take(key, std::move(rows))) return std::nullopt;
  return Degree::One;
}

std::optional<WeightAlgebra::Degree> WeightAlgebra::degree_of_binary(const BinaryNode& e) {
  std::optional<Degree> a = degree(e.a);
  std::optional<Degree> b = a ? degree(e.b) : a;
  if (!b) return b;
  switch (e.op) {
    case BinaryOp::Add:
    case BinaryOp::Sub: return meet(*a, *b);
    case BinaryOp::Mul:
      if (*a == Degree::Any || *b == Degree::Any) return Degree::Any;
      if (*a == Degree::Zero) return b;
      if (*b == Degree::Zero) return a;
      return fail("multiplies weights with each other");
    case BinaryOp::Div:
      if (*b == Degree::Zero) return a;
      return fail("divides by weights");
    default: return fail("uses weights in what is neither a product nor a sum");
  }
}

std::optional<WeightAlgebra::Degree> WeightAlgebra::degree(const Expr& e) {
  if (!depends(e)) return is_zero(e) ? Degree::Any : Degree::Zero;
  if (auto* n = e.as<CastNode>()) {
    return is_float(n->type.elem) ? degree(n->value) : fail("rounds weights to integers");
  }
  if (auto* n = e.as<UnaryNode>()) {
    return n->op == UnaryOp::Neg ? degree(n->a) : degree_of_exp(*n);
  }
  if (auto* n = e.as<LoadNode>()) return degree_of_load(*n);
  if (auto* n = e.as<BinaryNode>()) return degree_of_binary(*n);
  auto* choice = e.as<SelectNode>();
  if (!choice || depends(choice->cond)) {
    return fail("uses weights in what is neither a product nor a sum");
  }
  // Simplification used the condition on either side, so the comparison must assume it, too.
  auto side = [&](const Expr& value, const Expr& condition) {
    KnowledgeScope scope(known_);
    known_.assume(condition);
    return degree(value);
  };
  std::optional<Degree> a = side(choice->on_true, choice->cond);
  std::optional<Degree> b = a ? side(choice->on_false, !choice->cond) : a;
  return b ? meet(*a, *b) : b;
}

// True when the value is 0 wherever the maximum's value is -inf.
bool WeightAlgebra::is_hidden(const Expr& value) {
  auto* choice = strip_casts(value).as<SelectNode>();
  if (!maximum_.visible.defined() || !choice || !is_zero(strip_casts(choice->on_false))) {
    return false;
  }
  return equal(known_.simplify(of_maximum(maximum_.visible, rows_, key_)), choice->cond);
}

// Records where the block stores its values, and checks that each belongs to one row.
bool WeightAlgebra::finish(Weighed& found, const StoreNode& store) {
  found.rows = rows_;
  for (const IterVar& iter : block_->iters) {
    if (iter.var.same_as(key_)) found.key = iter;
    bool reduces = iter.kind == IterKind::Reduce;
    if (reduces != (found.sums && iter.var.same_as(key_))) {
      fail("sums over another axis than the maximum's");
      return false;
    }
  }
  Stored stored{{}, rows_, store.indices.size()};
  for (const Expr& index : store.indices) {
    stored.dims.push_back(known_.simplify(index));
    const Expr& dim = stored.dims.back();
    if (dim.same_as(key_)) stored.key = stored.dims.size() - 1;
    if (!dim.as<VarNode>() && !is_int(dim, 0)) {
      fail(fmt::format("stores to '{}' at other indices than its iterators", store.buffer->name));
      return false;
    }
  }
  for (const IterVar& iter : block_->iters) {
    bool placed = is_int(iter.extent, 1) || (found.sums && iter.var.same_as(key_)) ||
                  std::any_of(stored.dims.begin(), stored.dims.end(),
                              [&](const Expr& d) { return d.same_as(iter.var); });
    if (placed) continue;
    fail(fmt::format("stores to '{}' at other indices than its iterators", store.buffer->name));
    return false;
  }
  bool same_axis =
      equal(found.key.extent, maximum_.key.extent) && found.nest.loop_of(found.key) != nullptr;
  if (!same_axis) {
    fail("has no loop of its own along the axis of the maximum");
    return false;
  }
  if (found.sums) {
    sums_.insert(store.buffer.get());
  } else {
    stored_[store.buffer.get()] = std::move(stored);
  }
  return true;
}

std::optional<Weighed> WeightAlgebra::weigh(const LoneNest& nest) {
  block_ = &nest.block();
  key_ = {};
  rows_.clear();
  known_ = Analyzer();
  for (const DimVar& d : program_.dims) known_.bind(d.var, Interval{d.min, d.max});
  for (const IterVar& iter : block_->iters) {
    // An iterator whose extent is not literally 1 stays in expressions, even when its range is a
    // single value. Its index means the row, not 0.
    is_int(iter.extent, 1) ? known_.bind(iter.var, 0, iter.extent)
                           : known_.bind_kept(iter.var, 0, iter.extent);
  }

  Weighed found{nest, {}, {}, block_->init.defined()};
  auto* store = block_->body.as<StoreNode>();
  Reduction reduction = found.sums ? match_reduction(*block_) : Reduction{};
  bool pointwise = !found.sums && store && !store->predicate.defined();
  if (!pointwise && reduction.reducer != Reducer::Sum) {
    fail("neither stores one value nor sums up");
    return std::nullopt;
  }
  const Expr value = known_.simplify(found.sums ? reduction.value : store->value);
  std::optional<Degree> power = degree(value);
  if (power && *power != Degree::One) power = fail("does not follow the weights");
  if (!power || !finish(found, *store)) return std::nullopt;
  if (reads(value, maximum_.store->buffer.get())) hides_ = is_hidden(value) && hides_;
  return found;
}

}  // namespace tilewright
