// The cost of a warp's accesses: passes through the banks of shared memory, sectors of global
// memory. Lanes run one by one here, so the accesses of one instruction are found in their logs.
#pragma once

#include <vector>

#include "emulator/thread_state.h"

namespace tilewright::emulator {

// Entries that a thread notes between two barriers; what it does beyond goes uncounted.
constexpr size_t kLogLimit = 8192;

// One lane's part of an instruction.
struct LaneAccess {
  int64_t address;
  int bytes;
};

// Passes through 32 banks of 4 bytes for these lanes of one instruction, in lane order: 128 bytes of
// lanes at a time, each pass as long as its most wanted bank has words.
int bank_passes(const std::vector<LaneAccess>& lanes);
// Passes when no two lanes met in a bank.
int ideal_passes(const std::vector<LaneAccess>& lanes);
// Distinct sectors of 32 bytes.
int sectors(const std::vector<LaneAccess>& lanes);

// Counts the instructions in the logs of a warp's lanes and empties the logs. The n-th time that each
// lane is at an instruction counts as one instruction of the warp.
void count_warp(const std::vector<ThreadState*>& lanes, EmulatorCounters& counters);

// Passes of an access that does not stand in a log (ldmatrix, stmatrix).
void count_shared(const std::vector<LaneAccess>& lanes, EmulatorCounters& counters);

}  // namespace tilewright::emulator
