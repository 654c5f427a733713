// Tile sizes for products with matrix instructions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernel/instructions/mma_rows.h"
#include "kernel/target.h"
#include "tuner/rules/gpu/gpu_packable.h"

namespace tilewright {

// A block's tile, in warps (or warpgroups of 128 threads) of `warp_m` x `warp_n` results each.
struct TensorTileSizes {
  int64_t m, n, k, warp_m, warp_n;
  int64_t team = 32;

  std::string name() const;
  int64_t threads() const { return m / warp_m * (n / warp_n) * team; }
  // Shared-memory bytes of both operands' tiles, padding included, with B of `products` products.
  int64_t bytes(const Instruction& row, int64_t products = 1) const;
};

// Tiles for a product of these sizes, a sound one first: the largest that gives each SM a block.
std::vector<TensorTileSizes> tensor_tiles_for(int64_t m, int64_t n, int64_t k, int64_t batch,
                                              const Instruction& row, const GpuFacts& gpu);

// The same for wgmma; a tile's k fills the widest swizzle atom with elements of `bits` bits.
std::vector<TensorTileSizes> wgmma_tiles_for(int64_t m, int64_t n, int64_t batch, int bits,
                                             const GpuFacts& gpu);

inline constexpr int64_t kWeightRows = 16;  // rows of a weight fragment: columns n of the weight
inline constexpr int64_t kFewRows = 32;     // rows of a result that is small beside the weight

// Puts the first tile that `fills` the chip first, of tiles with swapped operands from the widest on.
// If there is none: the tile that reads the weight in the most blocks.
void put_widest_first(std::vector<TensorTileSizes>& tiles,
                      const std::function<bool(const TensorTileSizes&)>& fills);
// The names of tiles with swapped operands, whose k is a knob of its own.
std::string swapped_tile_name(const TensorTileSizes& tile);

// Tiles for a product with a packed weight, a sound one first; their k is 0. Each warp has all rows
// and `warp_n` columns, so that every code is unpacked once. For few rows a tile reads the weight in enough
// blocks to keep memory busy; otherwise it is the largest that gives each SM a block.
std::vector<TensorTileSizes> packed_tiles_for(int64_t m, int64_t n, const GpuFacts& gpu);

// The same for wgmma that takes the weight from registers, with 64 of its columns per warpgroup and
// all rows of the tile. A thread has `sets` sets of accumulators.
std::vector<TensorTileSizes> wgmma_packed_tiles_for(int64_t m, int64_t n, int sets,
                                                    const GpuFacts& gpu);

// Lengths along k for a tile of `rows` rows. They divide groups, and at most half of a tile is
// padding. Beside many rows, short lengths leave registers and shared memory to these.
std::vector<int64_t> packed_lengths_for(const Packable& p, int64_t rows);

// Numbers of tile rows that run side by side, for results of `rows` x `columns` tiles. L2 then
// holds what they read of both operands. Divisors of `rows`; the first is sound.
std::vector<int64_t> tile_groups_for(int64_t rows, int64_t columns);

}  // namespace tilewright
