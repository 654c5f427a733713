// Asynchronous matrix instructions of warpgroups: operands in shared memory by their descriptors, sums
// that land in registers when they are waited for.
#pragma once

#include <string>
#include <vector>

#include "emulator/memory/memory.h"

namespace tilewright::emulator {

// The text of tw_wgmma_operand and its kin, and of the rows that `kernel` names, for the CPU.
std::string wgmma_text(const std::string& kernel);

// Each works on the requests of lanes, in their order, that all take part; they throw Fault.

// For a warpgroup: takes the operands and computes D = A * B (+ D) as sm_90 adds
// (kernel/instructions/tensor_sums.h); for compute capability 0 in f64, rounded once. Until its group is waited
// for, the accumulators hold a pattern, the operands' bytes know that they are read, and an operand
// in registers is remembered.
void multiply_warpgroup(const std::vector<ThreadState*>& lanes, Memory& memory,
                        int compute_capability, EmulatorCounters& counters);
// For a warp: the instructions that follow may use registers that were touched.
void fence_registers(const std::vector<ThreadState*>& lanes);
// For a warp: the instructions issued so far are a group.
void commit_group(const std::vector<ThreadState*>& lanes);
// For a warp: all groups but the request's `variant` last ones land.
void wait_for_groups(const std::vector<ThreadState*>& lanes, Memory& memory);

// Refuses that a thread returns before its sums have landed.
void require_landed(const ThreadState& thread);

}  // namespace tilewright::emulator
