#include "schedule/primitives/softmax/softmax_nests.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ir/compare.h"
#include "ir/predicates.h"
#include "ir/visitor.h"
#include "schedule/primitives/pointwise.h"

namespace tilewright {
namespace {

Buffer written_by(const BlockNode& block) { return block.body.as<StoreNode>()->buffer; }

}  // namespace

SoftmaxNests::SoftmaxNests(std::string_view primitive, const Program& program, std::string block)
    : tree_(primitive, program), block_(std::move(block)), names_(program),
      path_(tree_.block(block_)) {
  find_maximum();
  find_weighed();
  require_private();
}

// Finds the sequence that contains the block's nest.
LoneNest SoftmaxNests::find_sequence() {
  size_t at = path_.size() - 1;
  while (at > 0 && path_[at - 1].as<ForNode>()) --at;
  tree_.require(at > 0 && path_[at - 1].as<SeqNode>(), RefusalKind::BadStructure,
                fmt::format("nothing stands beside the loops of block '{}'", block_),
                {path_.back()});
  seq_path_.assign(path_.begin(), path_.begin() + static_cast<std::ptrdiff_t>(at));
  std::optional<LoneNest> nest = lone_nest(path_[at]);
  tree_.require(nest.has_value(), RefusalKind::BadStructure,
                fmt::format("block '{}' does not stand alone in serial loops", block_),
                {path_[at]});
  return *nest;
}

void SoftmaxNests::find_maximum() {
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
      fmt::format("block '{}' does not take the maximum of floats along one axis", block_),
      {path_.back()});
  maximum_ = {std::move(nest), reduction.store, reduction.value, *reduced[0], {}};
  tree_.require(maximum_.nest.loop_of(maximum_.key) != nullptr, RefusalKind::BadStructure,
                fmt::format("iterator '{}' of block '{}' has no loop of its own",
                            maximum_.key.var.name(), block_),
                {path_.back()});
  auto* choice = maximum_.value.as<SelectNode>();
  Expr lowest = identity_of(Reducer::Max, maximum_.value.type());
  if (choice && equal(choice->on_false, lowest)) maximum_.visible = choice->cond;
  require_plain_rows(block);
}

void SoftmaxNests::require_plain_rows(const BlockNode& block) const {
  for (const IterVar& iter : block.iters) {
    if (iter.kind == IterKind::Reduce || is_int(iter.extent, 1)) continue;
    bool placed = std::any_of(maximum_.store->indices.begin(), maximum_.store->indices.end(),
                              [&](const Expr& e) { return e.same_as(iter.var); });
    tree_.require(placed, RefusalKind::Unsupported,
                  fmt::format("block '{}' does not store at its iterators", block_),
                  {path_.back()});
  }
}

void SoftmaxNests::find_weighed() {
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
    // Behind the loop the whole maximum is known, but only the sums of the weights are.
    tree_.require(!weights, RefusalKind::Unsupported, reason, {s});
  }
  tree_.require(sums, RefusalKind::BadStructure,
                fmt::format("nothing sums up weights of block '{}': {}", block_, reason),
                {path_.back()});
  if (!algebra.hides_the_invisible()) maximum_.visible = {};
}

void SoftmaxNests::require_no_detour(const std::vector<Stmt>& outside, const Weighed& found) const {
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
        tree_.require(apart, RefusalKind::Dependence,
                      fmt::format("block '{}' stands between '{}' and '{}', which become one loop",
                                  other.name, block->name, found.nest.block().name),
                      {leaf, found.nest.stmt});
      }
    }
  }
}

void SoftmaxNests::require_private() const {
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

Stmt SoftmaxNests::replaced_members(const std::vector<Stmt>& nests) const {
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

SpatialCopy SoftmaxNests::spatial_copy(const LoneNest& nest, const ForNode* key_loop) {
  SpatialCopy copy;
  VarMap loops;
  for (const Stmt& s : nest.loops) {
    const ForNode& loop = *s.as<ForNode>();
    if (&loop == key_loop) continue;
    Var var(names_.fresh(loop.var.name() + "_row"));
    copy.loops.push_back(make_for(var, substitute(loop.min, loops), substitute(loop.extent, loops),
                                  ForKind::Serial, loop.body));
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

}  // namespace tilewright
