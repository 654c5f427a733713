// Thread-block clusters: tiles of a product whose blocks share one copy from memory (TMA
// multicast).
#pragma once

#include <cstdint>
#include <string>

#include "tuner/rules/rules.h"

namespace tilewright {

/// Tiles of a cluster along the rows and columns of the result; one of both is 1.
struct GpuCluster {
  int64_t rows = 1, columns = 1;

  int64_t blocks() const { return rows * columns; }
};

/// Asks the knob "NAME.cluster". "1x1": no cluster. "2x1": two tiles of the same columns, which
/// share the second operand. "1x2": two tiles of the same rows, which share the first operand.
/// `rows` and `columns` count tiles (dynamic sizes: at most); a cluster needs two along its axis.
/// `copies` is the choice of gpu_choose_copies(): without producer warps that issue the TMA loads
/// there is no knob.
GpuCluster gpu_choose_cluster(RuleContext& c, const std::string& name, const std::string& copies,
                              int64_t rows, int64_t columns);

/// Annotates the loop over blocks; the blocks of a cluster are consecutive iterations.
void gpu_mark_cluster(RuleContext& c, const GpuCluster& cluster, const Loop& blocks);

}  // namespace tilewright
