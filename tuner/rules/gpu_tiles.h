// Sizes of the tiles in which matrix instructions compute a product.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/mma_rows.h"
#include "codegen/target.h"

namespace tilewright {

// A block's tile, in warps (or warpgroups, of 128 threads) of `warp_m` x `warp_n` results each.
struct TensorTileSizes {
  int64_t m, n, k, warp_m, warp_n;
  int64_t team = 32;

  std::string name() const;
  int64_t threads() const { return m / warp_m * (n / warp_n) * team; }
  // Shared memory for the tiles of both operands, padding included.
  int64_t bytes(const MmaRow& row) const;
};

// The tiles for a product of these sizes, a sound one first: the largest that gives each
// multiprocessor a block.
std::vector<TensorTileSizes> tensor_tiles_for(int64_t m, int64_t n, int64_t k, int64_t batch,
                                              const MmaRow& row, const GpuFacts& gpu);

// Likewise for asynchronous instructions of warpgroups, of which a tile's terms fill the widest swizzle
// with elements of `bits`.
std::vector<TensorTileSizes> wgmma_tiles_for(int64_t m, int64_t n, int64_t batch, int bits,
                                             const GpuFacts& gpu);

// Rows of tiles that run side by side along a row of tiles, for results of `rows` x `columns` tiles:
// what they read of both operands is then in the second-level cache. Divisors of `rows`; the first
// is sound.
std::vector<int64_t> tile_groups_for(int64_t rows, int64_t columns);

}  // namespace tilewright
