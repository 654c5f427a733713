// The matrix instructions of warps whose first operand is sparse (PTX `mma.sp`) as data: those of
// mma_rows.h of twice their length along k, at the same cost. Of each few neighbours along k a lane
// holds those that may be worth something, and some lanes hold words that say where these stood.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "codegen/mma_rows.h"

namespace tilewright {

/// D[m, n] = A[m, k] * B[k, n] + C[m, n], where A has at most `keep` elements other than 0 in each
/// `of` neighbours of a row. Its metadata are the places of the kept elements among these, in
/// ascending order, a register for 16 bits of a row or 32, from lanes that the sparsity selector
/// names: those of each group of four from selector * lanes() on.
struct SparseMmaRow {
  MmaRow whole;  ///< as if A had all its terms, which describes B and the sums; and the name:
                 ///< "sp_m16n8k32_f32_f16", whose function in kernels is tw_mma_ + name
  int keep, of;
  int index_bits;  ///< that the place of an element takes

  /// A as lanes hold it: [m, kept()], by a_place().
  MmaRow stored() const;
  int kept() const { return whole.k / of * keep; }
  /// Lanes of a group of four that give metadata.
  int lanes() const { return whole.m * kept() * index_bits / 32 / 8; }
  /// As many instructions as can take their metadata from one register of each lane.
  int selectors() const { return 4 / lanes(); }
  int indices_in_word() const { return 32 / index_bits; }
};

/// Every row.
const std::vector<SparseMmaRow>& sparse_mma_rows();

/// The row of this name; null when there is none.
const SparseMmaRow* find_sparse_mma(std::string_view name);

/// Of which element of the stored A [m, kept()] lane `lane` says with number `i` of its word, counted
/// from the lowest bits, where it stood; nothing for lanes that the selector leaves out.
std::optional<MatrixPlace> metadata_place(const SparseMmaRow& row, int lane, int i, int selector);

/// Where an element stands among `of` neighbours, by its number in a word; nothing for bits that mean
/// no place.
std::optional<int> place_of_index(const SparseMmaRow& row, uint32_t bits);

}  // namespace tilewright
