// The order in which a product's tiles run; it decides what concurrent tiles share.
#pragma once

#include <cstdint>
#include <string>

#include "tuner/rules/gpu/grid/gpu_cluster.h"
#include "tuner/rules/rules.h"

namespace tilewright {

/// Row by row, in groups of adjacent tile rows, or along a Hilbert curve.
struct GpuTileOrder {
  int64_t group = 1;              ///< rows of tiles, or of clusters
  int64_t rows = 0, columns = 0;  ///< extents of the curve; 0: no curve

  bool is_curve() const { return rows > 0; }
};

/// Asks the knob "NAME.order", "rows" or "hilbert", for `rows` by `columns` clusters, or tiles
/// without clusters. For "rows" also asks "NAME.group", the number of tile rows.
GpuTileOrder gpu_choose_tile_order(RuleContext& c, const std::string& name,
                                   const GpuCluster& cluster, int64_t rows, int64_t columns);

/// Annotates the loop over blocks, which visits tiles row by row.
void gpu_mark_tile_order(RuleContext& c, const GpuTileOrder& order, const Loop& blocks);

}  // namespace tilewright
