// What a lowered CUDA kernel asks of a GPU, read off its program: instructions of warps, passes
// through shared memory, sectors of global memory, and the latencies that nothing hides. The lanes of
// a few warps of the first block stand for all, loops at their first iteration for all of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "codegen/mma_rows.h"
#include "codegen/target.h"
#include "ir/stmt.h"
#include "tuner/index_value.h"

namespace tilewright {

// One place of the program where global memory is read or written.
struct GlobalAccess {
  Buffer buffer;
  Expr index;  // flat
  bool is_store = false;
  double bytes = 0;  // of a block: its sectors of 32 bytes
  // The address depends on data, so that no two blocks may be taken to read the same.
  bool is_scattered = false;
};

// Of one kernel; what is per block is that of one block.
struct GpuKernelWork {
  std::vector<std::pair<Var, int64_t>> grid;  // block axes, the fastest first
  int64_t blocks = 1;
  int threads = 1;
  int64_t shared_bytes = 0;
  int registers = 0;            // of a thread, roughly: those of its arrays, and a few more
  const MmaRow* mma = nullptr;  // the matrix instruction that it uses
  bool is_wgmma = false;        // which is what one warp has of an asynchronous one
  double mma_operations = 0;    // two a multiply-add; of a sparse operand its kept elements
  double fma = 0;               // floating-point instructions of warps
  double instructions = 0;      // all that warps issue
  double shared_passes = 0;     // passes of 128 bytes through the banks
  double barriers = 0;          // that a thread comes to, of the block and of parts of it
  double box_bytes = 0;         // that tensor copies move
  double multicast_bytes = 0;   // of these, what several blocks of a cluster get
  // Warpgroups of a block whose products take what they work out of earlier ones (attention), so that
  // tensor cores and the rest of the SM serve each of them in turns; 0 of other kernels. What a warpgroup
  // works out while a product of its own runs: instructions of warps, and the operations of those products.
  double turn_takers = 0, beside = 0, beside_operations = 0;
  // Where blocks are not as long as each other, since a loop of theirs is not (keys that a causal mask
  // leaves): its iterations, of all blocks in their order or of some at equal distances.
  std::vector<double> lengths;
  // Cycles: latencies that the block itself does not hide, and those that asynchronous copies spread
  // over its iterations.
  double exposed = 0, overlapped = 0;
  std::vector<GlobalAccess> global;
  IndexValues values;  // of the first thread of the first block

  // How many different first addresses `count` blocks from the first on have in an access.
  int64_t distinct_tiles(const GlobalAccess& access, int64_t count) const;
};

// Latencies in cycles, as microbenchmarks give them for Volta to Hopper (Jia et al., 2018; Luo et
// al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture", 2024).
inline constexpr double kGlobalLatency = 500, kSharedLatency = 30, kMmaLatency = 33,
                        kBarrierLatency = 20;

// The kernels of a program as lower_for_cuda() gives it, in order, at these sizes of its dynamic
// dimensions; those that are not named are the largest.
std::vector<GpuKernelWork> gpu_work_of(const Program& lowered, const Target& target,
                                       const std::map<std::string, int64_t>& sizes = {});

}  // namespace tilewright
