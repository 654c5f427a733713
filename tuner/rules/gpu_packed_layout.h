// How the codes of a weight lie in memory, so that a lane of a warp finds those of its fragments of a
// matrix instruction side by side, and in a word in the places from which registers are made.
#pragma once

#include "codegen/mma_rows.h"
#include "ir/index_map.h"

namespace tilewright {

struct PackedLayout {
  int64_t tile_n, tile_k;  // of the weight: what lies together
  int64_t fragments;       // neighbours along k whose codes a lane has side by side
  int bits;                // of a code
  const MmaRow* row;       // its first operand is the weight

  // Codes of a lane side by side.
  int64_t chunk() const { return fragments * row->a_registers() * row->packed(); }
  // How far apart the codes of one register lie in a word: as far as its elements do, so that one
  // shift and a mask take all of them out.
  int64_t stride() const;
  // The weight's columns n and rows k, at `column` and `k` of its last two dimensions, to
  // [.., n / tile_n, k / tile_k, place in the tile].
  IndexMap map(int rank, int column, int k) const;
};

// As many fragments side by side as 16 bytes hold, but no more than a tile has along k.
PackedLayout packed_layout(int64_t tile_n, int64_t tile_k, int bits, const MmaRow& row);

// A weight's columns n and rows k, at `column` and `k` of its last two dimensions, to
// [.., n, k / vector, place]: in a word of `codes`, those of a register of `elements` stand as far apart
// as its elements do, so that one shift and a mask take all of them out; registers follow each other
// along k.
IndexMap word_map(ElemType codes, ElemType elements, int64_t vector, int rank, int column, int k);
// Such places, the last of `rank` dimensions, in the order of k again.
IndexMap word_order_map(ElemType codes, ElemType elements, int64_t vector, int rank);

// [.., k, n] or [.., n, k] to [.., n / 16, k / row.k, lane, element of the lane]: the fragments.
IndexMap fragment_map(const MmaRow& row, int rank, int column, int k);

}  // namespace tilewright
