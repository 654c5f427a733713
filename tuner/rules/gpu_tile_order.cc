#include "tuner/rules/gpu_tile_order.h"

#include "codegen/cuda_tile_order.h"
#include "tuner/rules/gpu_tiles.h"

namespace tilewright {
GpuTileOrder gpu_choose_tile_order(RuleContext& c, const std::string& name, int64_t rows,
                                   int64_t columns) {
  if (c.t.choose_added(name + ".order", {"rows", "hilbert"}, "rows") == "hilbert") {
    return {1, rows, columns};
  }
  return {c.t.choose_added(name + ".group", tile_groups_for(rows, columns), 1)};
}

void gpu_mark_tile_order(RuleContext& c, const GpuTileOrder& order, const Loop& blocks) {
  if (!order.is_curve()) return;
  c.s.annotate(blocks, kHilbertRowsKey, order.rows);
  c.s.annotate(blocks, kHilbertColumnsKey, order.columns);
}

}  // namespace tilewright
