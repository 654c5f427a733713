#include "emulator/counters.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

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

std::set<int64_t> words_of(const std::vector<LaneAccess>& lanes) {
  std::set<int64_t> words;
  for (const LaneAccess& lane : lanes) {
    int64_t last = (lane.address + lane.bytes - 1) / kBankBytes;
    for (int64_t word = lane.address / kBankBytes; word <= last; ++word) words.insert(word);
  }
  return words;
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
    for (int64_t word : words_of(group)) ++wanted[static_cast<size_t>(word % kBanks)];
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
  std::set<int64_t> touched;
  for (const LaneAccess& lane : lanes) {
    int64_t last = (lane.address + lane.bytes - 1) / kSectorBytes;
    for (int64_t s = lane.address / kSectorBytes; s <= last; ++s) touched.insert(s);
  }
  return static_cast<int>(touched.size());
}

void count_shared(const std::vector<LaneAccess>& lanes, EmulatorCounters& counters) {
  counters.shared_passes += bank_passes(lanes);
  counters.shared_passes_ideal += ideal_passes(lanes);
}

void count_warp(const std::vector<ThreadState*>& lanes, EmulatorCounters& counters) {
  // An asynchronous copy stands twice in a log, once for each of its ends.
  using Key = std::tuple<const void*, Space, int>;
  struct Instruction {
    AccessKind kind;
    std::vector<LaneAccess> lanes;
  };
  std::map<Key, Instruction> instructions;
  for (ThreadState* lane : lanes) {
    std::map<std::pair<const void*, Space>, int> occurrences;
    for (const Access& a : lane->log) {
      int n = occurrences[{a.site, a.space}]++;
      Instruction& instruction = instructions[{a.site, a.space, n}];
      instruction.kind = a.kind;
      instruction.lanes.push_back({a.address, a.bytes});
    }
    lane->log.clear();
  }
  for (const auto& [key, instruction] : instructions) {
    count_instruction(std::get<Space>(key), instruction.kind, instruction.lanes, counters);
  }
}

}  // namespace tilewright::emulator
