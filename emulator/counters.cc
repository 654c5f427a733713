#include "emulator/counters.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace tilewright::emulator {
namespace {

constexpr int64_t kBankBytes = 4;
constexpr int64_t kBanks = 32;
constexpr int64_t kPassBytes = kBankBytes * kBanks;
constexpr int64_t kSectorBytes = 32;

// The lanes of an instruction go through the banks in groups that want 128 bytes together.
template <class Each>
void for_each_group(const std::vector<LaneAccess>& lanes, Each each) {
  std::vector<LaneAccess> group;
  int64_t bytes = 0;
  for (const LaneAccess& lane : lanes) {
    int64_t wanted = std::max<int64_t>(lane.bytes, kBankBytes);
    if (bytes + wanted > kPassBytes) {
      each(group);
      group.clear();
      bytes = 0;
    }
    group.push_back(lane);
    bytes += wanted;
  }
  if (!group.empty()) each(group);
}

// The units of so many bytes that the lanes touch, each once.
std::vector<int64_t> units_of(const std::vector<LaneAccess>& lanes, int64_t unit_bytes) {
  std::vector<int64_t> units;
  for (const LaneAccess& lane : lanes) {
    const int64_t last = (lane.address + lane.bytes - 1) / unit_bytes;
    for (int64_t unit = lane.address / unit_bytes; unit <= last; ++unit) units.push_back(unit);
  }
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  return units;
}

void count_instruction(Space space, AccessKind kind, const std::vector<LaneAccess>& lanes,
                       EmulatorCounters& counters) {
  if (space == Space::Shared) {
    if (kind == AccessKind::Load) ++counters.shared_loads;
    if (kind == AccessKind::Store) ++counters.shared_stores;
    count_shared(lanes, counters);
    return;
  }
  bool load = kind != AccessKind::Store;
  int64_t bytes = 0;
  for (const LaneAccess& lane : lanes) bytes += lane.bytes;
  if (kind == AccessKind::Load) ++counters.global_loads;
  if (kind == AccessKind::Store) ++counters.global_stores;
  if (kind == AccessKind::AsyncStore) ++counters.async_copies;
  (load ? counters.load_sectors : counters.store_sectors) += sectors(lanes);
  (load ? counters.load_bytes : counters.store_bytes) += bytes;
}

}  // namespace

int bank_passes(const std::vector<LaneAccess>& lanes) {
  int passes = 0;
  for_each_group(lanes, [&](const std::vector<LaneAccess>& group) {
    std::array<int, kBanks> wanted{};
    for (int64_t word : units_of(group, kBankBytes)) ++wanted[static_cast<size_t>(word % kBanks)];
    passes += *std::max_element(wanted.begin(), wanted.end());
  });
  return passes;
}

int ideal_passes(const std::vector<LaneAccess>& lanes) {
  int passes = 0;
  for_each_group(lanes, [&](const std::vector<LaneAccess>&) { ++passes; });
  return passes;
}

int sectors(const std::vector<LaneAccess>& lanes) {
  return static_cast<int>(units_of(lanes, kSectorBytes).size());
}

void count_shared(const std::vector<LaneAccess>& lanes, EmulatorCounters& counters) {
  counters.shared_passes += bank_passes(lanes);
  counters.shared_passes_ideal += ideal_passes(lanes);
}

void count_warp(const std::vector<ThreadState*>& lanes, EmulatorCounters& counters) {
  struct Entry {
    int lane;
    const Access* access;
    // An asynchronous copy stands twice in a log, once for each of its ends.
    std::pair<const void*, Space> key() const { return {access->site, access->space}; }
  };
  std::vector<Entry> entries;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    for (const Access& a : lanes[lane]->log) entries.push_back({static_cast<int>(lane), &a});
  }
  // Accesses of an instruction together, lane by lane, each lane's in its order.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.key() < b.key(); });
  std::vector<std::span<const Entry>> by_lane;
  std::vector<LaneAccess> together;
  for (size_t at = 0; at < entries.size();) {
    by_lane.clear();
    const auto key = entries[at].key();
    size_t most = 0;
    while (at < entries.size() && entries[at].key() == key) {
      const size_t begin = at;
      while (at < entries.size() && entries[at].key() == key &&
             entries[at].lane == entries[begin].lane) {
        ++at;
      }
      by_lane.emplace_back(&entries[begin], at - begin);
      most = std::max(most, at - begin);
    }
    for (size_t n = 0; n < most; ++n) {
      together.clear();
      AccessKind kind = AccessKind::Load;
      for (const std::span<const Entry>& of_lane : by_lane) {
        if (n >= of_lane.size()) continue;
        const Access& access = *of_lane[n].access;
        together.push_back({access.address, access.bytes});
        kind = access.kind;
      }
      count_instruction(key.second, kind, together, counters);
    }
  }
  for (ThreadState* lane : lanes) lane->log.clear();
}

}  // namespace tilewright::emulator
