// Tiles of two products one behind the other (attention, say) in one kernel by matrix instructions of
// warps: a block has a tile of rows and takes the keys, or the hidden columns, between both a step at a
// time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/mma_rows.h"
#include "tuner/rules/rules.h"

namespace tilewright {

/// A block's rows, the keys or hidden columns of a step, and the rows of a warp.
struct ChainTile {
  int64_t rows, step, warp_rows;

  std::string name() const;
  int64_t threads() const { return rows / warp_rows * 32; }
};

/// The sizes of a chain, and what tiles of it take of a multiprocessor.
struct ChainShape {
  const MmaRow* row = nullptr;  // the instruction of both
  int64_t rows = 0, between = 0;
  int64_t terms = 0;     // of the first product, in whole instructions
  int64_t columns = 0;   // of the second
  int64_t products = 1;  // first ones, side by side
  int64_t stacks = 1;    // of rows: heads of a batch, say

  /// Tiles that there are, each of which takes all steps.
  int64_t blocks(const ChainTile& t) const;
  /// 32-bit registers of a thread for what a warp has of the rows of A, of sums, and of elements between
  /// the products.
  int64_t registers(const ChainTile& t, bool rows_in_registers) const;
  /// Of shared memory for so many steps' tiles of the other operands, and one of A unless it is in
  /// registers.
  int64_t bytes(const ChainTile& t, int64_t stages, bool rows_in_registers) const;
};

/// Of `tiles` those that fit the chip and are not all padding: a tile has more rows than 32 only where half
/// of it or more are rows of the chain, and so with a step over `least_step`. The first of them that gives
/// each multiprocessor a block goes before the others.
std::vector<ChainTile> chain_tiles(const ChainShape& shape, std::vector<ChainTile> tiles,
                                   int64_t least_step, const GpuFacts& gpu);

/// What is asked of each chain: "tile", "rows" (in registers or shared memory) and "stages".
struct ChainAnswers {
  ChainTile tile{};
  bool in_registers = true;  // A
  int64_t stages = 1;
};
/// The questions' names begin with that of `block`.
ChainAnswers choose_chain_tile(RuleContext& c, const Block& block, const ChainShape& shape,
                               const std::vector<ChainTile>& tiles);

}  // namespace tilewright
