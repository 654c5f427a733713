#include "tuner/rules/gpu/grid/gpu_tile_order.h"

#include <algorithm>
#include <vector>

#include "codegen/cuda/cuda_tile_order.h"
#include "tuner/rules/gpu/gpu_tiles.h"

namespace tilewright {
namespace {

constexpr int64_t kMostStripRows = 8;

}  // namespace
GpuTileOrder gpu_choose_tile_order(RuleContext& c, const std::string& name,
                                   const GpuCluster& cluster, int64_t rows, int64_t columns) {
  if (c.t.choose(name + ".order", std::vector<std::string>{"rows", "hilbert"}) == "hilbert") {
    return {1, rows, columns};
  }
  std::vector<int64_t> groups = tile_groups_for(rows * cluster.rows, columns * cluster.columns);
  // With clusters of two columns, more rows than this are more tiles than run at once.
  if (cluster.columns > 1)
    std::erase_if(groups, [](int64_t group) { return group > kMostStripRows; });
  const int64_t group = c.t.choose(name + ".group", groups);
  return {std::max<int64_t>(1, group / cluster.rows)};
}

void gpu_mark_tile_order(RuleContext& c, const GpuTileOrder& order, const Loop& blocks) {
  if (!order.is_curve()) return;
  const TileOrder along{.rows = order.rows, .columns = order.columns};
  c.s.annotate(blocks, kTileOrderKey, along.text());
}

}  // namespace tilewright
