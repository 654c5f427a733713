// How long a kernel should take on a GPU, from its lowered program and the chip's data sheet: the
// model by which kernels are chosen where there is no device to measure them on.
//
// A kernel runs in waves of as many blocks as the SMs hold at once. A wave takes as long as the
// busiest of the tensor cores, the FMA pipes, the schedulers, shared memory, L2 and DRAM, or as long
// as the latencies that its warps cannot hide; what else is busy meanwhile costs a little, too. Blocks
// that are resident together read common tiles through L2 once; later waves find there what fits.
// Aligning tiles to what the hardware moves and computes at a time, and ranking by the traffic of
// each level, is how Roller (Zhu et al., OSDI 2022) and Ladder (Wang et al., OSDI 2024) choose
// kernels; occupancy is that of the CUDA programming guide (compute capabilities).
//
// It is meant to order the candidates of one workload. Its seconds are predictions and are never
// shown as measured.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/target.h"
#include "ir/stmt.h"
#include "tuner/gpu_work.h"

namespace tilewright {

// What a kernel may be waiting for.
enum class GpuLimit : uint8_t { Tensor, Fma, Issue, Shared, L2, Dram, Latency };
inline constexpr std::array kGpuLimits = {GpuLimit::Tensor, GpuLimit::Fma, GpuLimit::Issue,
                                          GpuLimit::Shared, GpuLimit::L2,  GpuLimit::Dram,
                                          GpuLimit::Latency};
// "tensor cores", "DRAM", …
std::string_view name_of(GpuLimit limit);

struct GpuKernelEstimate {
  double seconds = 0;
  // Seconds that each would take by itself, by GpuLimit.
  std::array<double, kGpuLimits.size()> alone = {};
  GpuLimit bound_by = GpuLimit::Dram;
  int64_t blocks = 1;
  int threads = 1;
  int registers = 0;  // of a thread
  int64_t shared_bytes = 0;
  int blocks_per_sm = 0;
  double waves = 0;      // blocks over those that are resident at once
  double occupancy = 0;  // resident threads over those that an SM can hold
  double dram_bytes = 0, l2_bytes = 0, shared_passes = 0;

  double of(GpuLimit limit) const { return alone[static_cast<size_t>(limit)]; }
};

struct GpuEstimate {
  double seconds = 0;  // of all kernels, with what it takes to launch them
  std::vector<GpuKernelEstimate> kernels;
  std::string refusal;  // why the program does not run on the target; then there is nothing else

  bool fits() const { return refusal.empty(); }
};

// What a compiler says of a kernel, which is surer than what its program tells.
struct CompiledFacts {
  int registers = 0;
};

// Of a scheduled program. `compiled` is empty or has an entry for each kernel. A program that cannot
// be lowered is refused with the lowering's words.
GpuEstimate estimate_gpu(const Program& scheduled, const Target& target,
                         const std::vector<CompiledFacts>& compiled = {});

// The same at each of these sizes of its dynamic dimensions, in their order; those that a size does
// not name are the largest. A program that does not run on the target at one of them is refused at
// all.
std::vector<GpuEstimate> estimate_gpu_at(const Program& scheduled, const Target& target,
                                         const std::vector<std::map<std::string, int64_t>>& sizes,
                                         const std::vector<CompiledFacts>& compiled = {});

// Of a program's kernels by their work.
GpuEstimate estimate_works(const std::vector<GpuKernelWork>& works, const Target& target,
                           const std::vector<CompiledFacts>& compiled = {});

// Of one kernel by its work; `problem` is set where no block of it fits an SM.
GpuKernelEstimate estimate_kernel(const GpuKernelWork& work, const GpuFacts& gpu, int registers,
                                  std::string& problem);

}  // namespace tilewright
