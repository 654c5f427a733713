// Tiles of a product whose blocks run as a cluster, so that one copy from memory serves all of them.
#pragma once

#include <cstdint>
#include <string>

#include "tuner/rules/rules.h"

namespace tilewright {

/// Tiles of a cluster along rows and along columns of the result: one of both is 1.
struct GpuCluster {
  int64_t rows = 1, columns = 1;

  int64_t blocks() const { return rows * columns; }
};

/// Asks "NAME.cluster": "1x1"; "2x1", two tiles of the same columns, which have the second operand in
/// common; or "1x2", of the same rows, with the first one. `rows` and `columns` are those of tiles, of a
/// dynamic size the most: there must be two along a cluster. `copies` is the answer of
/// gpu_choose_copies(): other warps than those that compute have to ask for the boxes, else there is no
/// question.
GpuCluster gpu_choose_cluster(RuleContext& c, const std::string& name, const std::string& copies,
                              int64_t rows, int64_t columns);

/// Annotates the loop over blocks, of which a cluster's run behind each other.
void gpu_mark_cluster(RuleContext& c, const GpuCluster& cluster, const Loop& blocks);

}  // namespace tilewright
