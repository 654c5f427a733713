// Tiles of back-to-back products (attention, for example) in one kernel with matrix instructions. A
// block has a tile of rows and steps through the keys, or the hidden columns, between both products.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/instructions/mma_rows.h"
#include "tuner/rules/rules.h"

namespace tilewright {

/// Rows per block, keys or hidden columns per step, and rows per warp.
struct ChainTile {
  int64_t rows, step, warp_rows;

  std::string name() const;
  int64_t threads() const { return rows / warp_rows * 32; }
};

/// The sizes of a chain, and the SM resources that its tiles need.
struct ChainShape {
  const Instruction* row = nullptr;  // the second product's instruction
  int64_t rows = 0, between = 0;
  int64_t terms = 0;     // k of the first product, in whole instructions
  int64_t columns = 0;   // of the second product
  int64_t products = 1;  // first products side by side (dual GEMM)
  int64_t stacks = 1;    // stacks of rows: heads of a batch, for example

  /// The number of tiles; each takes all steps.
  int64_t blocks(const ChainTile& t) const;
  /// 32-bit registers per thread: the warp's rows of A, accumulators, and elements between the
  /// products.
  int64_t registers(const ChainTile& t, bool rows_in_registers) const;
  /// Bytes of shared memory: `stages` steps of tiles of the other operands, and a tile of A unless
  /// it is in registers. Warpgroups read tiles that are not padded, and may wait for copies at
  /// mbarriers.
  int64_t bytes(const ChainTile& t, int64_t stages, bool rows_in_registers) const;
};

/// The `tiles` that fit the chip and are not mostly padding. A tile of more than 32 rows (64 of
/// warpgroups) needs more than half of them in the chain; so does a step above `least_step`. The
/// first tile that gives each SM a block comes first.
std::vector<ChainTile> chain_tiles(const ChainShape& shape, std::vector<ChainTile> tiles,
                                   int64_t least_step, const GpuFacts& gpu);

/// The choices of a chain; the knobs are "tile", "rows" (in registers or shared memory) and
/// "stages".
struct ChainAnswers {
  ChainTile tile{};
  bool in_registers = true;  // operand A
  int64_t stages = 1;
};
/// Knob names begin with the name of `block`.
ChainAnswers choose_chain_tile(RuleContext& c, const Block& block, const ChainShape& shape,
                               const std::vector<ChainTile>& tiles);

}  // namespace tilewright
