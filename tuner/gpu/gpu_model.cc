#include "tuner/gpu/gpu_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <queue>

#include "base/ceil_div.h"
#include "codegen/cuda_lowering.h"
#include "kernel/instructions/mma_rows.h"

namespace tilewright {
namespace {

constexpr double kLaunchSeconds = 2e-6;
// A dependent launch, whose blocks are ready when the launch before it ends. Assumed, not measured.
constexpr double kDependentLaunchSeconds = 1e-6;
constexpr int kSchedulers = 4;  // per SM, each issues an instruction per cycle
// Results of special functions (exponentials, reciprocals) per cycle and SM ("Arithmetic
// Instructions" in the CUDA programming guide).
constexpr double kSpecialLanes = 16;
constexpr double kL2BytesPerCycle = 40;  // per SM: an A100's whitepaper says 5120 for 108
// The share of the data sheet's bandwidth in long streams: 4.07 of 4.8 TB/s of a triad on an H200.
constexpr double kDramShare = 0.85;
constexpr double kOverlapLoss = 0.03;      // share of the work beside the busiest resource
constexpr int64_t kReservedShared = 1024;  // bytes per block, from compute capability 8.0 on
constexpr int kRegisterUnit = 256;         // allocation granularity of a warp's registers
// From Hopper on, the tensor cores reach their peak only with asynchronous instructions. mma.sync
// reaches this share ("Benchmarking and Dissecting the Nvidia Hopper GPU Architecture", 2024).
constexpr double kMmaSyncShare = 0.62;

constexpr int kSplitProducts = 3;  // tensor-core products per product of a split row

// The matrix instruction's operations per second.
double tensor_rate(const GpuKernelWork& w, const GpuFacts& gpu) {
  const Instruction& row = *w.products.row;
  double rate = gpu.tensor_f16;
  if (!row.split.empty()) {
    rate = gpu.tensor_tf32 / kSplitProducts;
  } else if (row.tf32) {
    rate = gpu.tensor_tf32;
  } else if (row.operand_bits() == 8) {
    rate = is_float(row.operand) ? gpu.tensor_f8 : gpu.tensor_i8;
  } else if (row.operand_bits() < 8) {
    rate = gpu.tensor_i8 * 8 / row.operand_bits();
  }
  bool is_partial =
      !w.products.is_wgmma && (gpu.compute_capability == 90 || gpu.compute_capability == 100);
  return rate * (is_partial ? std::min(kMmaSyncShare, gpu.sustained) : gpu.sustained);
}

// The number of blocks that an SM holds at once. If 0, `problem` says which resource is exceeded.
int resident_blocks(const GpuKernelWork& w, const GpuFacts& gpu, int registers,
                    std::string& problem) {
  const int warps = static_cast<int>(ceil_div(w.threads, kWarp));
  const int64_t reserved = gpu.compute_capability >= 80 ? kReservedShared : 0;
  if (w.threads > gpu.threads_per_block) {
    problem = fmt::format("a block has {} threads; a block of {} has at most {}", w.threads,
                          gpu.model, gpu.threads_per_block);
  } else if (w.shared_bytes > gpu.shared_per_block) {
    problem = fmt::format("a block takes {} bytes of shared memory; a block of {} has at most {}",
                          w.shared_bytes, gpu.model, gpu.shared_per_block);
  } else if (registers > gpu.registers_per_thread ||
             int64_t{registers} * kWarp * warps > gpu.registers_per_sm) {
    problem =
        fmt::format("{} threads of {} registers; {} has {} for a thread and {} for all", w.threads,
                    registers, gpu.model, gpu.registers_per_thread, gpu.registers_per_sm);
  }
  if (!problem.empty()) return 0;
  const int of_warp = static_cast<int>(round_up(registers * kWarp, kRegisterUnit));
  int64_t blocks = std::min<int64_t>(gpu.blocks_per_sm, gpu.threads_per_sm / (warps * kWarp));
  blocks = std::min<int64_t>(blocks, gpu.registers_per_sm / (int64_t{of_warp} * warps));
  if (w.shared_bytes > 0) {
    blocks = std::min<int64_t>(blocks, gpu.shared_per_sm / (w.shared_bytes + reserved));
  }
  return static_cast<int>(std::max<int64_t>(1, blocks));
}

// DRAM bytes read and written by all blocks together. Each buffer counts once; later waves add what
// L2 does not hold.
double dram_bytes(const GpuKernelWork& w, const GpuFacts& gpu, int64_t resident) {
  const double waves = static_cast<double>(w.blocks) / static_cast<double>(resident);
  std::map<const BufferNode*, double> wanted, of_waves;
  for (const GlobalAccess& a : w.global) {
    auto tiles = static_cast<double>(w.distinct_tiles(a, resident));
    of_waves[a.buffer.get()] += tiles * a.bytes * waves;
    wanted[a.buffer.get()] += a.bytes * static_cast<double>(w.blocks);
  }
  double footprint = 0;
  // In access order: floating-point sums must not depend on where buffers lie in memory.
  std::vector<std::pair<const BufferNode*, double>> once;
  for (const GlobalAccess& a : w.global) {
    const BufferNode* b = a.buffer.get();
    const bool is_known = std::any_of(once.begin(), once.end(),
                                      [&](const auto& buffer) { return buffer.first == b; });
    if (is_known) continue;
    double bytes = 1;
    for (const Expr& extent : b->shape) bytes *= static_cast<double>(w.values.at(extent));
    bytes *= bits_of(b->elem) / 8.0;
    once.emplace_back(b, std::min(wanted[b], bytes));
  }
  for (const auto& [b, bytes] : once) footprint += bytes;
  const double kept = std::min(1.0, static_cast<double>(gpu.l2_bytes) / std::max(footprint, 1.0));
  double total = 0;
  for (const auto& [b, bytes] : once) {
    total += bytes + std::max(0.0, of_waves[b] - bytes) * (1 - kept);
  }
  return total;
}

// SM cycles of one block running alone.
struct BlockCycles {
  std::array<double, 5> pipes = {};  // Tensor, Fma, Issue, Special, Shared
  double waiting = 0;                // from its first instruction to its last
  // Warpgroups that alternate between products and other work.
  double takers = 0;  // per block
  double product = 0, apart = 0, latency = 0;

  // Cycles of `blocks` blocks together. Their warpgroups alternate between the tensor cores and the
  // other pipes, and queue where others are. Mean value analysis of a closed network of two servers
  // (Reiser and Lavenberg, 1980).
  double in_turns(int blocks) const {
    double at_tensor = 0, elsewhere = 0, round = 0;
    const double all = takers * blocks;
    for (double n = 1; n <= all; ++n) {
      const double tensor = product * (1 + at_tensor), other = apart * (1 + elsewhere);
      round = tensor + other + latency;
      at_tensor = n * tensor / round;
      elsewhere = n * other / round;
    }
    return round;
  }
};

BlockCycles cycles_of(const GpuKernelWork& w, const GpuFacts& gpu) {
  BlockCycles c;
  const double per_sm = 1.0 / gpu.sms / gpu.clock;
  if (w.products.row) c.pipes[0] = w.products.operations / (tensor_rate(w, gpu) * per_sm);
  c.pipes[1] = w.units.fma / (gpu.f32 * per_sm / (2 * kWarp));
  c.pipes[2] = w.instructions / kSchedulers;
  c.pipes[3] = w.units.special * kWarp / kSpecialLanes;
  c.pipes[4] = w.shared_passes;
  double busiest = *std::max_element(c.pipes.begin(), c.pipes.end()), bare = 0;
  if (w.products.turn_takers == 0) {
    // The block multiplies, and then stores its tile while its tensor cores have nothing to do.
    const double issued = (w.instructions - w.bare.instructions) / kSchedulers;
    busiest =
        std::max({c.pipes[0], c.pipes[1], issued, c.pipes[3], w.shared_passes - w.bare.passes});
    bare = std::max({w.bare.instructions / kSchedulers, w.bare.passes, w.bare.bytes / kPortBytes});
  }
  c.waiting = std::max(w.waits.exposed + busiest, w.waits.overlapped) + bare;
  if (w.teams.count > 1) {
    // A team stores its tile beside the products of another one, unless it takes longer than those.
    // Between tiles the last group of products ends, and the next team learns that it has its turn.
    const double handover = kSharedLatency + kMmaLatency + kArrivalLatency;
    const double alone = w.waits.exposed + (busiest + bare) / w.teams.count;
    c.waiting = std::max({busiest + handover * w.teams.tiles, w.waits.overlapped, alone}) +
                bare / w.teams.tiles;
  }
  if (w.products.turn_takers == 0) return c;
  c.takers = w.products.turn_takers;
  c.product = c.pipes[0] / c.takers;
  c.latency = w.waits.exposed;
  const double others = std::max({c.pipes[1], c.pipes[2], c.pipes[3]});
  const double beside = std::min(c.pipes[0] * w.products.beside_operations / w.products.operations,
                                 others * w.products.beside / w.instructions);
  c.apart = (others - beside) / c.takers;
  return c;
}

// Adds `count` waves of `blocks` blocks; the fullest SM holds `on_sm` of them.
void add_waves(GpuKernelEstimate& e, const GpuFacts& gpu, const BlockCycles& cycles, double count,
               int on_sm, double blocks) {
  std::array<double, kGpuLimits.size()> seconds = {};
  auto& of_l2 = seconds[static_cast<size_t>(GpuLimit::L2)];
  auto& of_dram = seconds[static_cast<size_t>(GpuLimit::Dram)];
  auto& of_latency = seconds[static_cast<size_t>(GpuLimit::Latency)];
  for (size_t p = 0; p < cycles.pipes.size(); ++p) {
    seconds[p] = on_sm * cycles.pipes[p] / gpu.clock;
  }
  // Few SMs cannot use the full bandwidth of L2 and DRAM.
  const double l2_rate = kL2BytesPerCycle * gpu.clock * std::min<double>(gpu.sms, blocks);
  const double share = blocks / static_cast<double>(e.blocks);
  of_l2 = e.l2_bytes * share / l2_rate;
  of_dram = e.dram_bytes * share / std::min(kDramShare * gpu.bandwidth, l2_rate);
  of_latency = std::max(cycles.waiting, cycles.in_turns(on_sm)) / gpu.clock;
  // All entries but the last (latency) are busy times.
  const double busiest = *std::max_element(seconds.begin(), seconds.end() - 1);
  const double beside = std::accumulate(seconds.begin(), seconds.end() - 1, 0.0) - busiest;
  const double most = std::max(busiest, of_latency);
  e.seconds += count * (most + kOverlapLoss * beside);
  for (size_t l = 0; l < seconds.size(); ++l) e.alone[l] += count * seconds[l];
}

// The schedule's length in blocks of average length, if each block takes the first of `places`
// slots that is free.
double rounds_of(const std::vector<double>& lengths, int64_t places) {
  std::priority_queue<double, std::vector<double>, std::greater<>> ends;
  double sum = 0, last = 0;
  for (double length : lengths) {
    double begin = 0;
    if (static_cast<int64_t>(ends.size()) == places) {
      begin = ends.top();
      ends.pop();
    }
    ends.push(begin + length);
    last = std::max(last, begin + length);
    sum += length;
  }
  return last * static_cast<double>(lengths.size()) / sum;
}

}  // namespace

std::string_view name_of(GpuLimit limit) {
  switch (limit) {
    case GpuLimit::Tensor: return "tensor cores";
    case GpuLimit::Fma: return "FMA pipes";
    case GpuLimit::Issue: return "instruction issue";
    case GpuLimit::Special: return "special functions";
    case GpuLimit::Shared: return "shared memory";
    case GpuLimit::L2: return "L2";
    case GpuLimit::Dram: return "DRAM";
    case GpuLimit::Latency: return "latency";
  }
  return "";
}

GpuKernelEstimate estimate_kernel(const GpuKernelWork& w, const GpuFacts& gpu, int registers,
                                  std::string& problem) {
  GpuKernelEstimate e;
  e.blocks = w.blocks;
  e.threads = w.threads;
  e.registers = registers;
  e.shared_bytes = w.shared_bytes;
  e.blocks_per_sm = resident_blocks(w, gpu, registers, problem);
  if (e.blocks_per_sm == 0) return e;
  const int64_t resident = int64_t{gpu.sms} * e.blocks_per_sm;
  const auto blocks = static_cast<double>(w.blocks);
  e.waves = blocks / static_cast<double>(resident);
  e.occupancy = static_cast<double>(e.blocks_per_sm) * w.threads / gpu.threads_per_sm;
  for (const GlobalAccess& a : w.global) e.l2_bytes += a.bytes * blocks;
  e.dram_bytes = dram_bytes(w, gpu, std::min(resident, w.blocks));
  e.shared_passes = w.shared_passes * blocks;
  const BlockCycles cycles = cycles_of(w, gpu);
  const int64_t whole = w.blocks / resident, rest = w.blocks % resident;
  if (!w.lengths.empty()) {
    // A sample of the blocks runs on a proportional part of the chip.
    const auto sampled = static_cast<int64_t>(w.lengths.size());
    const int64_t at_once = std::min(resident, w.blocks);
    const int64_t places = std::max<int64_t>(1, at_once * sampled / w.blocks);
    add_waves(e, gpu, cycles, rounds_of(w.lengths, places),
              static_cast<int>(ceil_div(at_once, gpu.sms)), static_cast<double>(at_once));
  } else if (whole > 0) {
    add_waves(e, gpu, cycles, static_cast<double>(whole), e.blocks_per_sm,
              static_cast<double>(resident));
  }
  if (rest > 0 && w.lengths.empty()) {
    add_waves(e, gpu, cycles, 1, static_cast<int>(ceil_div(rest, gpu.sms)),
              static_cast<double>(rest));
  }
  auto most = std::max_element(e.alone.begin(), e.alone.end());
  e.bound_by = kGpuLimits[static_cast<size_t>(most - e.alone.begin())];
  return e;
}

double launch_seconds(size_t launches, size_t dependent) {
  return kLaunchSeconds * static_cast<double>(launches - dependent) +
         kDependentLaunchSeconds * static_cast<double>(dependent);
}

GpuEstimate estimate_works(const std::vector<GpuKernelWork>& works, const Target& target,
                           const std::vector<CompiledFacts>& compiled) {
  GpuEstimate estimate;
  for (size_t i = 0; i < works.size(); ++i) {
    int registers = compiled.size() == works.size() ? compiled[i].registers : works[i].registers;
    estimate.kernels.push_back(estimate_kernel(works[i], target.gpu, registers, estimate.refusal));
    if (!estimate.fits()) {
      estimate.kernels.clear();
      estimate.seconds = 0;
      return estimate;
    }
    const bool stands_ready = i > 0 && launches_overlap(target.gpu);
    estimate.seconds += estimate.kernels.back().seconds + launch_seconds(1, stands_ready ? 1 : 0);
  }
  return estimate;
}

std::vector<GpuEstimate> estimate_gpu_at(const Program& scheduled, const Target& target,
                                         const std::vector<std::map<std::string, int64_t>>& sizes,
                                         const std::vector<CompiledFacts>& compiled) {
  std::vector<GpuEstimate> estimates;
  std::string refusal;
  try {
    const Program lowered = lower_for_cuda(scheduled, target);
    for (const auto& at : sizes) {
      estimates.push_back(estimate_works(gpu_work_of(lowered, target, at), target, compiled));
      if (!estimates.back().fits()) refusal = estimates.back().refusal;
    }
  } catch (const LoweringError& e) {
    refusal = e.what();
  }
  if (refusal.empty()) return estimates;
  GpuEstimate refused;
  refused.refusal = refusal;
  return std::vector<GpuEstimate>(sizes.size(), refused);
}

GpuEstimate estimate_gpu(const Program& scheduled, const Target& target,
                         const std::vector<CompiledFacts>& compiled) {
  return estimate_gpu_at(scheduled, target, {{}}, compiled).front();
}

}  // namespace tilewright
