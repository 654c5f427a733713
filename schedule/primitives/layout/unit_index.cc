#include "schedule/primitives/layout/unit_index.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ir/predicates.h"
#include "ir/visitor.h"
#include "schedule/primitive_json.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

class UnitIndices : public Mutator {
 public:
  UnitIndices(std::string buffer, size_t dim, Var iterator)
      : buffer_(std::move(buffer)), dim_(dim), iterator_(std::move(iterator)) {}

  int changed() const { return changed_; }

 protected:
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    if (!is_at_zero(n.buffer, n.indices)) return Mutator::mutate_load(n, e);
    return load(n.buffer, moved(n.indices), n.predicate);
  }
  Stmt mutate_store(const StoreNode& n, const Stmt& s) override {
    if (!is_at_zero(n.buffer, n.indices)) return Mutator::mutate_store(n, s);
    return make_store(n.buffer, moved(n.indices), mutate(n.value), n.predicate);
  }

 private:
  bool is_at_zero(const Buffer& buffer, const std::vector<Expr>& indices) const {
    return buffer->name == buffer_ && dim_ < indices.size() && is_int(indices[dim_], 0);
  }
  std::vector<Expr> moved(const std::vector<Expr>& indices) {
    ++changed_;
    bool any = false;
    std::vector<Expr> result = mutate_all(indices, &any);
    result[dim_] = iterator_;
    return result;
  }

  std::string buffer_;
  size_t dim_;
  Var iterator_;
  int changed_ = 0;
};

}  // namespace

Applied UnitIndex::apply(const Module& module) const {
  Tree tree(kName, module.main);
  const Path path = tree.block(block);
  const BlockNode& old = *path.back().as<BlockNode>();
  const auto iter = std::find_if(old.iters.begin(), old.iters.end(), [&](const IterVar& i) {
    return i.var.name() == iterator && i.kind == IterKind::Spatial && is_int(i.extent, 1);
  });
  if (iter == old.iters.end()) {
    tree.bad_argument("iterator",
                      fmt::format("a spatial iterator of block '{}' with one iteration", block),
                      iterator, {path.back()});
  }
  UnitIndices rewriter(buffer, dim < 0 ? SIZE_MAX : static_cast<size_t>(dim), iter->var);
  const Stmt init = rewriter(old.init), body = rewriter(old.body);
  tree.require(
      rewriter.changed() > 0, RefusalKind::BadStructure,
      fmt::format("block '{}' has no access to '{}' at 0 along dimension {}", block, buffer, dim),
      {path.back()});
  const Stmt changed =
      make_block(old.name, old.iters, body, init, old.predicate, old.allocs, old.annotations);
  return {{replace_stmt(module.main, &old, changed), module.packs}, {}};
}

std::vector<PrimitiveEntry> unit_index_primitives() { return {primitive_entry<UnitIndex>()}; }

}  // namespace tilewright
