// Warp-level matrix instructions whose first operand is sparse (PTX `mma.sp`) as data. They have
// twice the k of those in mma_rows.h, at the same cost. A lane holds the elements that are kept of
// each few neighbours along k. Sparse metadata in some lanes say where these stood.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "kernel/instructions/mma_rows.h"

namespace tilewright {

/// D[m, n] = A[m, k] * B[k, n] + C[m, n] with a sparse A. A has at most `keep` nonzero elements in
/// each `of` neighbours of a row. The sparse metadata are the indices of the kept elements among
/// these, in ascending order. A register holds 16 or 32 bits of metadata for a row. The sparsity
/// selector names the lanes that supply them: in each group of four, those from selector * lanes()
/// on.
struct SparseMmaRow {
  MmaRow whole;  ///< as if A were dense: describes B, the accumulators and the name
                 ///< "sp_m16n8k32_f32_f16"; the function in kernels is tw_mma_ + name
  int keep, of;
  int index_bits;  ///< bits of one element's index

  /// A's kept elements as lanes hold them: [m, kept()], by a_place().
  MmaRow stored() const;
  int kept() const { return whole.k / of * keep; }
  /// Lanes in a group of four that supply metadata.
  int lanes() const { return whole.m * kept() * index_bits / 32 / 8; }
  /// The number of instructions that can take their metadata from one register of each lane.
  int selectors() const { return 4 / lanes(); }
  int indices_in_word() const { return 32 / index_bits; }
  /// The stored A of all instructions that share metadata, [m, kept() * selectors()]: the lane and
  /// the position in its word, from the lowest bits on, of each element's index.
  const Fragment& metadata() const;
};

/// Every row.
const std::vector<SparseMmaRow>& sparse_mma_rows();

/// The row of this name; null when there is none.
const SparseMmaRow* find_sparse_mma(std::string_view name);

/// The position of an element among `of` neighbours, decoded from its index in a word; nothing for
/// bits that mean no position.
std::optional<int> place_of_index(const SparseMmaRow& row, uint32_t bits);

}  // namespace tilewright
