#include "tuner/rules/gpu/grid/gpu_grid.h"

#include <algorithm>
#include <vector>

#include "codegen/cuda_lowering.h"

namespace tilewright {
namespace {

constexpr int64_t kSystemShared = 1024;    // per block, by the system
constexpr int64_t kMostBlocksOfTiles = 4;  // per SM: the tiles are large
constexpr int64_t kManyWaves = 16;         // from here on a partial last wave matters little
constexpr int64_t kLeastShare = 2;         // k iterations that justify partial sums in memory

// The numbers of blocks that an SM may hold, limited by shared memory, threads and registers.
std::vector<int64_t> residents(const GpuFacts& gpu, const GpuGridWork& work) {
  std::vector<int64_t> counts = {1};
  for (int64_t n = 2; n <= kMostBlocksOfTiles; ++n) {
    bool fits = n * (work.shared_bytes + kSystemShared) <= gpu.shared_per_sm &&
                n * work.threads <= gpu.threads_per_sm && n <= gpu.blocks_per_sm &&
                n * work.threads * work.registers <= gpu.registers_per_sm;
    if (fits) counts.push_back(n);
  }
  return counts;
}

// The options of "NAME.grid" and "NAME.blocks".
class Offer {
 public:
  Offer(const GpuFacts& gpu, const GpuGridWork& work)
      : gpu_(gpu), work_(work), residents_(residents(gpu, work)) {}

  std::vector<std::string> ways() const {
    std::vector<std::string> ways;
    if (!work_.must_persist) ways.emplace_back("tiles");
    for (const char* way : {"persistent", "stream_k"}) {
      if (!counts(way).empty()) ways.emplace_back(way);
    }
    return ways;
  }

  std::vector<int64_t> counts(const std::string& way) const {
    std::vector<int64_t> found;
    for (int64_t n : residents_) {
      if (is_worth(way, n * gpu_.sms)) found.push_back(n);
    }
    return found;
  }

 private:
  bool is_worth(const std::string& way, int64_t blocks) const {
    if (way == "persistent") return work_.tiles > blocks;
    if (!work_.may_share || work_.cluster > 1) return false;
    bool leaves_idle = work_.tiles % gpu_.sms != 0 && work_.tiles % blocks != 0;
    return leaves_idle && work_.tiles < kManyWaves * blocks &&
           work_.tiles * work_.terms >= kLeastShare * blocks;
  }

  const GpuFacts& gpu_;
  const GpuGridWork& work_;
  std::vector<int64_t> residents_;
};

}  // namespace

GpuGrid gpu_choose_grid(RuleContext& c, const std::string& name, const GpuGridWork& work) {
  const GpuFacts& gpu = c.input.target.gpu;
  const Offer offer(gpu, work);
  const std::vector<std::string> ways = offer.ways();
  if (ways.size() == 1 && !work.must_persist) return {};
  const std::string way = c.t.choose(name + ".grid", ways);
  if (way == "tiles") return {};
  const int64_t resident = c.t.choose(name + ".blocks", offer.counts(way));
  const int64_t clusters = std::max<int64_t>(1, resident * gpu.sms / work.cluster);
  return {clusters * work.cluster, way == "stream_k"};
}

void gpu_mark_grid(RuleContext& c, const GpuGrid& grid, const Loop& blocks, const Loop& terms) {
  if (grid.blocks == 0) return;
  c.s.annotate(blocks, kPersistentKey, grid.blocks);
  if (grid.streamed) c.s.annotate(terms, kStreamedKey, int64_t{1});
}

}  // namespace tilewright
