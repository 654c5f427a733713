// How many blocks a kernel on a GPU has: one for each tile of results, or as many as the chip holds.
#pragma once

#include <cstdint>
#include <string>

#include "tuner/rules/rules.h"

namespace tilewright {

// What a kernel has to do, and what a block of it takes.
struct GpuGridWork {
  int64_t tiles;  // of results; of a dynamic size the most
  int64_t terms;  // iterations of the loop over terms, of a tile
  int64_t shared_bytes;
  int64_t threads;
  bool may_share =
      true;             // terms between blocks: where what is summed over them is the result's sums
  int64_t cluster = 1;  // blocks that run together, and take neighbouring tiles
  int64_t registers = 0;  // of a thread, at least
};

struct GpuGrid {
  int64_t blocks = 0;     // 0: one a tile
  bool streamed = false;  // blocks share the terms of the last tiles
};

// Asks "NAME.grid": "tiles"; "persistent" where there are more tiles than blocks that run at once; or
// "stream_k", where the last of them would leave multiprocessors without work. And "NAME.blocks", how
// many blocks each multiprocessor is to hold: as many as its shared memory and its registers leave room
// for. Configs that ask for more, as they could when registers were not counted, keep what they have.
GpuGrid gpu_choose_grid(RuleContext& c, const std::string& name, const GpuGridWork& work);
// Annotates the loop over blocks and the one over terms that stands right under it.
void gpu_mark_grid(RuleContext& c, const GpuGrid& grid, const Loop& blocks, const Loop& terms);

}  // namespace tilewright
