// Sizes of the tiles in which matrix instructions compute a product.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/mma_rows.h"
#include "codegen/target.h"
#include "tuner/rules/gpu_packable.h"

namespace tilewright {

// A block's tile, in warps (or warpgroups, of 128 threads) of `warp_m` x `warp_n` results each.
struct TensorTileSizes {
  int64_t m, n, k, warp_m, warp_n;
  int64_t team = 32;

  std::string name() const;
  int64_t threads() const { return m / warp_m * (n / warp_n) * team; }
  // Shared memory for the tiles of both operands, padding included, of B for so many products.
  int64_t bytes(const MmaRow& row, int64_t products = 1) const;
};

// The tiles for a product of these sizes, a sound one first: the largest that gives each
// multiprocessor a block.
std::vector<TensorTileSizes> tensor_tiles_for(int64_t m, int64_t n, int64_t k, int64_t batch,
                                              const MmaRow& row, const GpuFacts& gpu);

// Likewise for asynchronous instructions of warpgroups, of which a tile's terms fill the widest swizzle
// with elements of `bits`.
std::vector<TensorTileSizes> wgmma_tiles_for(int64_t m, int64_t n, int64_t batch, int bits,
                                             const GpuFacts& gpu);

inline constexpr int64_t kWeightRows = 16;  // of a weight in a fragment of its own: its columns n
inline constexpr int64_t kFewRows = 32;     // of a result, which is then small beside the weight

// A block's tile of the result of a packed weight, of which each warp has all rows and `warp_n`
// columns, so that every code is unpacked once.
struct PackedTile {
  int64_t m, n, warp_n;

  std::string name() const;
  int64_t threads() const { return n / warp_n * 32; }
};

// The tiles for a product of these sizes, a sound one first: for few rows what reads the weight in as
// many blocks as keep memory busy; else the largest one that gives each multiprocessor a block.
std::vector<PackedTile> packed_tiles_for(int64_t m, int64_t n, const GpuFacts& gpu);

// Likewise by instructions of warpgroups that take the weight from registers, 64 of its columns a
// warpgroup beside all rows of the tile; of sums a thread has so many sets.
std::vector<PackedTile> wgmma_packed_tiles_for(int64_t m, int64_t n, int sets, const GpuFacts& gpu);

// Lengths of a tile of so many rows along k: groups are made of whole ones, and no more than half of
// one is padding. Beside many rows short ones leave registers and shared memory to these.
std::vector<int64_t> packed_lengths_for(const Packable& p, int64_t rows);

// Rows of tiles that run side by side along a row of tiles, for results of `rows` x `columns` tiles:
// what they read of both operands is then in the second-level cache. Divisors of `rows`; the first
// is sound.
std::vector<int64_t> tile_groups_for(int64_t rows, int64_t columns);

}  // namespace tilewright
