// Thread block clusters (sm_90 and later): neighbouring blocks of a kernel that the GPU starts
// together. One of them may copy to the shared memory of all (multicast).
//
// A schedule annotates the loop over blocks with kClusterKey, a number: so many consecutive
// iterations are a cluster. The indices show which operands the blocks have in common. A TMA tile
// that is the same for all blocks of a cluster is copied in as many parts. Each block copies one of
// them to all (codegen/passes/gpu/gpu_tensor_pipeline.cc).
#pragma once

#include <cstdint>

#include "ir/arith/simplify.h"
#include "ir/stmt.h"
#include "ir/visitor.h"

namespace tilewright {

inline constexpr const char* kClusterKey = "cluster";
/// The largest cluster that all GPUs with clusters run.
inline constexpr int64_t kMostClusterBlocks = 8;

/// The number of blocks per cluster that the loop over blocks asks for; 1 where it asks for none.
/// Throws LoweringError where the annotation is no number from 1 to kMostClusterBlocks.
int64_t cluster_blocks(const ForNode& loop);

struct BlockCluster {
  Var block;           ///< the loop over blocks, along x
  int64_t blocks = 1;  ///< per cluster
  VarMap names;        ///< values that differ between them, in terms of loops and of other names

  /// The rank of a block in its cluster.
  Expr rank() const { return floormod(block, Expr(blocks)); }
  /// Whether an expression of a kernel can be shown to be the same in all blocks of a cluster.
  bool is_same(const Expr& e, Analyzer& known) const;
};

}  // namespace tilewright
