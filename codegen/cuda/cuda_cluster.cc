#include "codegen/cuda/cuda_cluster.h"

#include <fmt/format.h>

#include "codegen/lowering.h"

namespace tilewright {

int64_t cluster_blocks(const ForNode& loop) {
  auto note = loop.annotations.find(kClusterKey);
  if (note == loop.annotations.end()) return 1;
  auto* blocks = std::get_if<int64_t>(&note->second);
  if (!blocks || *blocks < 1 || *blocks > kMostClusterBlocks || loop.for_kind != ForKind::BlockX) {
    throw LoweringError(fmt::format(
        "'{}' of loop '{}' must be a number from 1 to {}, on a loop over blocks along x",
        kClusterKey, loop.var.name(), kMostClusterBlocks));
  }
  return *blocks;
}

bool BlockCluster::is_same(const Expr& e, Analyzer& known) const {
  KnowledgeScope scope(known);
  Var first("first"), rank("rank");
  known.bind(rank, Interval{0, blocks - 1});
  const VarMap at = {{block.get(), first * Expr(blocks) + rank}};
  return !uses_var(known.simplify(substitute(substitute(e, names), at)), rank);
}

}  // namespace tilewright
