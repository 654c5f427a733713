// Counts a lowered CUDA kernel's demands on a GPU: warp instructions, shared-memory passes,
// global-memory sectors, exposed latencies. The lanes of a few warps of the first block stand for
// all, and a loop's first iteration for all its iterations.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/stmt.h"
#include "kernel/instructions/mma_rows.h"
#include "kernel/target.h"
#include "tuner/index_value.h"

namespace tilewright {

// One place in the program that reads or writes global memory.
struct GlobalAccess {
  Buffer buffer;
  Expr index;  // flattened
  bool is_store = false;
  double bytes = 0;  // per block: its sectors of 32 bytes
  // The address depends on data, so that two blocks are never assumed to read the same.
  bool is_scattered = false;
};

// The work of one kernel. Quantities are per block unless they say otherwise.
struct GpuKernelWork {
  std::vector<std::pair<Var, int64_t>> grid;  // block axes, fastest first
  int64_t blocks = 1;
  int threads = 1;
  int64_t shared_bytes = 0;
  int registers = 0;         // per thread, roughly: its arrays and a few more
  double instructions = 0;   // all warp instructions issued
  double shared_passes = 0;  // passes of 128 bytes through the banks
  // Of these instructions, those of other units: floating-point ones, and special functions.
  struct Units {
    double fma = 0, special = 0;
  } units;
  // Matrix instructions.
  struct Products {
    const Instruction* row = nullptr;
    bool is_wgmma = false;  // then `row` is one warp's part of the wgmma
    double operations = 0;  // two per multiply-add; sparse: kept elements only
    // Attention: the number of a block's warpgroups whose products depend on their earlier products.
    // Tensor cores and the rest of the SM serve each of them in turns. 0 for other kernels. `beside`
    // counts warp instructions that run during the warpgroup's own product, `beside_operations` the
    // operations of these products.
    double turn_takers = 0, beside = 0, beside_operations = 0;
  } products;
  // TMA tiles and bulk copies, in bytes; those that are multicast to blocks of a cluster count in both.
  struct Tma {
    double bytes = 0, multicast_bytes = 0;
  } tma;
  // Trip counts of the loop that makes blocks differ in length (keys left by a causal mask). An
  // entry per block in order, or per sampled block at equal distances. Empty if blocks are equal.
  std::vector<double> lengths;
  // Teams of consumers that take turns (ping-pong), and the tiles of a block.
  struct Teams {
    double count = 1, tiles = 1;
  } teams;
  // Cycles: latencies that the block does not hide itself, and those of asynchronous copies (until
  // the bytes are there, and until a stage that was read is known to be free), spread over the
  // stages that run ahead. Barriers are those that a thread waits at, of the block or a part of it.
  struct Waits {
    double exposed = 0, overlapped = 0, barriers = 0;
  } waits;
  // The part of the instructions, shared memory passes and stored bytes that stands beside no
  // product of its block: before and behind the loops that multiply. 0 without matrix instructions.
  struct Bare {
    double instructions = 0, passes = 0, bytes = 0;
  } bare;
  std::vector<GlobalAccess> global;
  IndexValues values;  // of the first block's first thread

  // The number of distinct first addresses of an access among the first `count` blocks.
  int64_t distinct_tiles(const GlobalAccess& access, int64_t count) const;
};

// Latencies in cycles, from microbenchmarks of Volta to Hopper (Jia et al., 2018; Luo et al.,
// "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture", 2024).
inline constexpr double kGlobalLatency = 500, kSharedLatency = 30, kMmaLatency = 33,
                        kBarrierLatency = 20;
// A round trip between SMs of a cluster: 180 cycles each way (Luo et al.).
inline constexpr double kClusterLatency = 360;
// From an arrival at an mbarrier of the own SM until a waiting thread goes on.
inline constexpr double kArrivalLatency = 2 * kSharedLatency;
// Bytes per cycle that one SM receives from L2, and sends there (the width of its port).
inline constexpr double kPortBytes = 64;

// The work of each kernel of a program lowered by lower_for_cuda(), in order, at these dynamic
// dimensions. A dimension without a size takes its maximum.
std::vector<GpuKernelWork> gpu_work_of(const Program& lowered, const Target& target,
                                       const std::map<std::string, int64_t>& sizes = {});

}  // namespace tilewright
