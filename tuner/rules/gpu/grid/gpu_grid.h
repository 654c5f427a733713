// The number of blocks of a GPU kernel: one per result tile, or as many as the chip holds
// (persistent).
#pragma once

#include <cstdint>
#include <string>

#include "tuner/rules/rules.h"

namespace tilewright {

// The work of a kernel, and the resources of one of its blocks.
struct GpuGridWork {
  int64_t tiles;  // result tiles; at most, for a dynamic size
  int64_t terms;  // k iterations per tile
  int64_t shared_bytes;
  int64_t threads;
  // Blocks may share k (stream-K): only if the accumulators over k are those of the result.
  bool may_share = true;
  bool must_persist = false;  // teams of a block take its tiles in turns
  int64_t cluster = 1;        // blocks that run as a cluster, on neighbouring tiles
  int64_t registers = 0;      // per thread, at least
};

struct GpuGrid {
  int64_t blocks = 0;     // 0: one per tile
  bool streamed = false;  // blocks share the k of the last tiles (stream-K)
};

// Asks the knob "NAME.grid": "tiles", "persistent" or "stream_k". "persistent" needs more tiles
// than blocks that run at once; "stream_k" needs a last wave that leaves SMs idle. Also asks
// "NAME.blocks": the blocks per SM, up to the limits of shared memory and registers. Configs from
// before registers counted may have more; they stay valid.
GpuGrid gpu_choose_grid(RuleContext& c, const std::string& name, const GpuGridWork& work);
// Annotates the loop over blocks and the k loop right under it.
void gpu_mark_grid(RuleContext& c, const GpuGrid& grid, const Loop& blocks, const Loop& terms);

}  // namespace tilewright
