// Asynchronous warpgroup matrix instructions whose first operand is sparse (PTX
// `wgmma.mma_async.sp`, sm_90a) as data. They have twice the k of those in wgmma_rows.h, at the
// same cost. In each of the four warps, A's kept elements and the sparse metadata lie as for
// `mma.sp`.
#pragma once

#include <string_view>
#include <vector>

#include "kernel/instructions/sparse_mma_rows.h"
#include "kernel/instructions/wgmma_rows.h"

namespace tilewright {

/// D[64, n] = A[64, k] * B[k, n] + D, or without D, with a sparse A. A has at most `keep` nonzero
/// elements in each `of` neighbours of a row. B lies in shared memory. A's kept elements, [64,
/// kept()], lie there, too, or in registers. Sparse metadata lie in registers of the lanes that the
/// sparsity selector names (metadata_place() of each warp).
struct SparseWgmmaRow {
  /// The part of one warp, [16, n] of D. The name, "sp_m64n128k32_f32_f16", and the PTX instruction
  /// are those of the whole; the function in kernels is tw_wgmma_ + name.
  SparseMmaRow warp;
  /// The row as if A were dense: describes the accumulators and B.
  WgmmaRow as_whole;

  int n() const { return warp.whole.n; }
  int k() const { return warp.whole.k; }
  const WgmmaRow& whole() const { return as_whole; }
  /// A's kept elements as an operand of their own.
  WgmmaRow stored() const { return {warp.stored()}; }
};

/// Every row: one for each dense row, in the same order.
const std::vector<SparseWgmmaRow>& sparse_wgmma_rows();

/// The row of this name; null when there is none.
const SparseWgmmaRow* find_sparse_wgmma(std::string_view name);

}  // namespace tilewright
