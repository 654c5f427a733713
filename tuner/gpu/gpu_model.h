// The analytical GPU model: predicts a kernel's time from its lowered program and the chip's data
// sheet. It ranks kernels when there is no device to measure them on.
//
// A kernel runs in waves of as many blocks as the SMs hold at once. A wave takes as long as its
// busiest resource: tensor cores, FMA pipes, schedulers, shared memory, L2 or DRAM. It takes longer
// if its warps cannot hide the latencies. Other resources that are busy meanwhile add a little.
// Blocks that are resident together read common tiles through L2 once; later waves find what fits
// into L2.
//
// Roller (Zhu et al., OSDI 2022) and Ladder (Wang et al., OSDI 2024) choose kernels in this way.
// They align tiles with what the hardware moves and computes at a time, and rank kernels by the
// traffic of each memory level. Occupancy follows the CUDA programming guide (compute
// capabilities).
//
// The model is meant to order the candidates of one workload. Its seconds are predictions and are
// never shown as measured.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/stmt.h"
#include "kernel/target.h"
#include "tuner/gpu/gpu_work.h"

namespace tilewright {

// The resource that bounds a kernel's time.
enum class GpuLimit : uint8_t { Tensor, Fma, Issue, Special, Shared, L2, Dram, Latency };
inline constexpr std::array kGpuLimits = {GpuLimit::Tensor,  GpuLimit::Fma,    GpuLimit::Issue,
                                          GpuLimit::Special, GpuLimit::Shared, GpuLimit::L2,
                                          GpuLimit::Dram,    GpuLimit::Latency};
// "tensor cores", "DRAM", …
std::string_view name_of(GpuLimit limit);

struct GpuKernelEstimate {
  double seconds = 0;
  // Seconds that each resource would take alone, by GpuLimit.
  std::array<double, kGpuLimits.size()> alone = {};
  GpuLimit bound_by = GpuLimit::Dram;
  int64_t blocks = 1;
  int threads = 1;
  int registers = 0;  // per thread
  int64_t shared_bytes = 0;
  int blocks_per_sm = 0;
  double waves = 0;      // blocks / blocks resident at once
  double occupancy = 0;  // resident threads / threads that an SM can hold
  double dram_bytes = 0, l2_bytes = 0, shared_passes = 0;

  double of(GpuLimit limit) const { return alone[static_cast<size_t>(limit)]; }
};

struct GpuEstimate {
  double seconds = 0;  // of all kernels, launch overhead included
  std::vector<GpuKernelEstimate> kernels;
  std::string refusal;  // why the program does not run on the target; otherwise empty

  bool fits() const { return refusal.empty(); }
};

// Facts from a compiler; they override the estimates from the program.
struct CompiledFacts {
  int registers = 0;
};

// Estimates a scheduled program. `compiled` is empty or has an entry per kernel. For a program that
// cannot be lowered, the refusal is the lowering's message.
GpuEstimate estimate_gpu(const Program& scheduled, const Target& target,
                         const std::vector<CompiledFacts>& compiled = {});

// The part of an estimate that starts so many kernels, of which some stand ready when the ones ahead end.
double launch_seconds(size_t launches, size_t dependent);

// The same at each of these sizes of the dynamic dimensions, in their order. A dimension that a
// size does not name takes its maximum. A program that does not run on the target at one size is
// refused at all.
std::vector<GpuEstimate> estimate_gpu_at(const Program& scheduled, const Target& target,
                                         const std::vector<std::map<std::string, int64_t>>& sizes,
                                         const std::vector<CompiledFacts>& compiled = {});

// Estimates a program's kernels from their work.
GpuEstimate estimate_works(const std::vector<GpuKernelWork>& works, const Target& target,
                           const std::vector<CompiledFacts>& compiled = {});

// Estimates one kernel from its work. Sets `problem` if no block of it fits an SM.
GpuKernelEstimate estimate_kernel(const GpuKernelWork& work, const GpuFacts& gpu, int registers,
                                  std::string& problem);

}  // namespace tilewright
