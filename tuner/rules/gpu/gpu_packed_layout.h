// The memory layout of a weight's codes. A lane finds the codes of its fragments side by side. In
// each packed 32-bit register they are at the positions from which operand registers are made.
#pragma once

#include "ir/arith/index_map.h"
#include "kernel/instructions/mma_rows.h"

namespace tilewright {

struct PackedLayout {
  int64_t tile_n, tile_k;  // the part of the weight that is contiguous
  int64_t fragments;       // fragments along k with adjacent codes in a lane
  int bits;                // per code
  const Instruction* row;  // operand A is the weight

  // Adjacent codes of a lane.
  int64_t chunk() const { return fragments * row->a_registers() * row->packed(); }
  // The distance between the codes of one operand register in a packed 32-bit register. It equals
  // that of the register's elements, so that one shift and a mask extract all of them.
  int64_t stride() const;
  // Maps the weight's columns n and rows k to [.., n / tile_n, k / tile_k, position in the tile].
  // They are at `column` and `k` of its last two dimensions.
  IndexMap map(int rank, int column, int k) const;
};

// Puts as many fragments side by side as 16 bytes hold, but no more than a tile has along k.
PackedLayout packed_layout(int64_t tile_n, int64_t tile_k, int bits, const Instruction& row);

// Maps a weight's columns n and rows k to [.., n, k / vector, position]. They are at `column` and
// `k` of its last two dimensions. The codes for one register of `elements` are as far apart in a
// packed 32-bit register as its elements. One shift and a mask extract all of them. Registers
// follow each other along k.
IndexMap word_map(ElemType codes, ElemType elements, int64_t vector, int rank, int column, int k);
// Maps such positions, the last of `rank` dimensions, back to the order of k.
IndexMap word_order_map(ElemType codes, ElemType elements, int64_t vector, int rank);

}  // namespace tilewright
