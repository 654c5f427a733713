// The asynchronous matrix instructions of warpgroups whose first operand is sparse (PTX
// `wgmma.mma_async.sp`, sm_90a) as data: those of wgmma_rows.h of twice their terms at the same cost. What
// is kept of A, and the words that say where it stood, lie in each of the four warps as `mma.sp` has
// them.
#pragma once

#include <string_view>
#include <vector>

#include "codegen/sparse_mma_rows.h"
#include "codegen/wgmma_rows.h"

namespace tilewright {

/// D[64, n] = A[64, k] * B[k, n] + D, or without D, where A has at most `keep` elements other than 0 in
/// each `of` neighbours of a row. B lies in shared memory; of A the kept elements, [64, kept()], there,
/// too, or in registers. Metadata are in registers of the lanes that the sparsity selector names
/// (metadata_place() of each warp).
struct SparseWgmmaRow {
  /// What one of the warps computes, [16, n] of D. The name, "sp_m64n128k32_f32_f16", and the PTX
  /// instruction are those of the whole; the function in kernels is tw_wgmma_ + name.
  SparseMmaRow warp;
  /// As if all of A were kept: sums, and B.
  WgmmaRow as_whole;

  int n() const { return warp.whole.n; }
  int k() const { return warp.whole.k; }
  const WgmmaRow& whole() const { return as_whole; }
  /// A's kept elements as an operand of their own.
  WgmmaRow stored() const { return {warp.stored()}; }
};

/// Every row: as many as dense ones, and in their order.
const std::vector<SparseWgmmaRow>& sparse_wgmma_rows();

/// The row of this name; null when there is none.
const SparseWgmmaRow* find_sparse_wgmma(std::string_view name);

}  // namespace tilewright
