#include "tuner/rules/gpu_grid.h"

#include <algorithm>
#include <vector>

#include "codegen/cuda_lowering.h"

namespace tilewright {
namespace {

constexpr int64_t kReservedShared = 1024;  // of a block, by the system
constexpr int64_t kMostBlocks = 4;         // of a multiprocessor: their tiles are large
constexpr int64_t kManyWaves = 16;  // from here on it matters little how full the last one is
constexpr int64_t kLeastShare = 2;  // iterations that are worth the sums in memory

// How many blocks a multiprocessor may hold, by shared memory and threads.
std::vector<int64_t> residents(const GpuFacts& gpu, const GpuGridWork& work) {
  std::vector<int64_t> counts = {1};
  for (int64_t n = 2; n <= kMostBlocks; ++n) {
    bool fits = n * (work.shared_bytes + kReservedShared) <= gpu.shared_per_sm &&
                n * work.threads <= gpu.threads_per_sm && n <= gpu.blocks_per_sm;
    if (fits) counts.push_back(n);
  }
  return counts;
}

}  // namespace

GpuGrid gpu_choose_grid(RuleContext& c, const std::string& name, const GpuGridWork& work) {
  const GpuFacts& gpu = c.input.target.gpu;
  auto is_worth = [&](const std::string& way, int64_t blocks) {
    if (way == "persistent") return work.tiles > blocks;
    if (!work.may_share || work.cluster > 1) return false;
    bool leaves_idle = work.tiles % gpu.sms != 0 && work.tiles % blocks != 0;
    return leaves_idle && work.tiles < kManyWaves * blocks &&
           work.tiles * work.terms >= kLeastShare * blocks;
  };
  std::vector<std::string> ways = {"tiles"};
  std::vector<int64_t> counts = residents(gpu, work);
  auto counts_for = [&](const std::string& way) {
    std::vector<int64_t> found;
    for (int64_t n : counts) {
      if (is_worth(way, n * gpu.sms)) found.push_back(n);
    }
    return found;
  };
  for (const char* way : {"persistent", "stream_k"}) {
    if (!counts_for(way).empty()) ways.emplace_back(way);
  }
  if (ways.size() == 1) return {};
  const std::string way = c.t.choose_added(name + ".grid", ways, "tiles");
  if (way == "tiles") return {};
  const int64_t blocks = c.t.choose(name + ".blocks", counts_for(way)) * gpu.sms;
  const int64_t clusters = std::max<int64_t>(1, blocks / work.cluster);
  return {clusters * work.cluster, way == "stream_k"};
}

void gpu_mark_grid(RuleContext& c, const GpuGrid& grid, const Loop& blocks, const Loop& terms) {
  if (grid.blocks == 0) return;
  c.s.annotate(blocks, kPersistentKey, grid.blocks);
  if (grid.streamed) c.s.annotate(terms, kStreamedKey, int64_t{1});
}

}  // namespace tilewright
