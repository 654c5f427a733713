// Blocks of a kernel that run as clusters: neighbours, which the GPU starts together, and of which one
// may copy to the shared memory of all (thread block clusters, from sm_90 on).
//
// A schedule annotates the loop over blocks with kClusterKey, a number: so many iterations behind each
// other are a cluster. Which operands they have in common comes from the indices: the boxes of copies
// that are the same for all blocks of a cluster are copied in as many parts, one by each of them to all
// (codegen/passes/gpu_tensor_pipeline.cc).
#pragma once

#include <cstdint>

#include "ir/simplify.h"
#include "ir/stmt.h"
#include "ir/visitor.h"

namespace tilewright {

inline constexpr const char* kClusterKey = "cluster";
/// That all GPUs with clusters run.
inline constexpr int64_t kMostClusterBlocks = 8;

/// The blocks of a cluster that the loop over blocks asks for; 1 where it asks for none. Throws
/// LoweringError where the annotation is no number from 1 to kMostClusterBlocks.
int64_t cluster_blocks(const ForNode& loop);

struct BlockCluster {
  Var block;           ///< the loop over blocks, along x
  int64_t blocks = 1;  ///< of a cluster
  VarMap names;        ///< of what differs between them, in terms of loops and of other names

  /// Which block of its cluster one is.
  Expr rank() const { return floormod(block, Expr(blocks)); }
  /// Whether an expression of a kernel can be shown to be the same in all blocks of a cluster.
  bool is_same(const Expr& e, Analyzer& known) const;
};

}  // namespace tilewright
