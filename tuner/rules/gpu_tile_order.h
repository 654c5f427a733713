// The order in which the tiles of a product run, which says what those that run at a time share.
#pragma once

#include <cstdint>
#include <string>

#include "tuner/rules/gpu_cluster.h"
#include "tuner/rules/rules.h"

namespace tilewright {

/// Row by row, in groups of rows of tiles side by side, or along a Hilbert curve.
struct GpuTileOrder {
  int64_t group = 1;              ///< rows of tiles, or of clusters
  int64_t rows = 0, columns = 0;  ///< through which a curve runs; 0: none does

  bool is_curve() const { return rows > 0; }
};

/// Asks "NAME.order", "rows" or "hilbert", for so many rows and columns of clusters, or of tiles where
/// blocks run by themselves; and of rows "NAME.group", in rows of tiles.
GpuTileOrder gpu_choose_tile_order(RuleContext& c, const std::string& name,
                                   const GpuCluster& cluster, int64_t rows, int64_t columns);

/// Annotates the loop over blocks, which runs through tiles row by row.
void gpu_mark_tile_order(RuleContext& c, const GpuTileOrder& order, const Loop& blocks);

}  // namespace tilewright
