// Warp specialization: producer warps copy ahead, consumer warps compute.
#pragma once

#include <cstdint>

#include "kernel/target.h"

namespace tilewright {

// The annotation of a kernel's outermost loop over blocks, once it is lowered. Threads from this
// number on are the producers.
inline constexpr const char* kConsumersKey = "consumer_threads";
// The same for the number of teams that these threads form, where there are several (ping-pong).
inline constexpr const char* kTeamsOfConsumersKey = "consumer_teams";

/// Threads of a kernel with warp specialization, and registers per thread; 0 where no role gives
/// any away.
struct RoleBudget {
  int64_t consumers, producers;
  int64_t consumer_registers = 0, producer_registers = 0;

  int64_t threads() const { return consumers + producers; }
};

/// The budget of a kernel with so many consumer threads. A single consumer warpgroup may have all
/// registers that a thread can have, beside one producer warp. Several take most registers of a
/// producer warpgroup by `setmaxnreg`. Budgets are multiples of 8 from 24 to 240. Together they are
/// no more than the block has when it starts: what its threads leave room for, a multiple of 8.
///
/// Producers that are `busy` copy for other blocks, too, or find their tiles along a curve. They
/// keep 40 registers: with the least number they would keep addresses in memory.
RoleBudget role_budget(int64_t consumers, const GpuFacts& gpu, bool busy = false);

/// The budget of a kernel whose registers change hands, by all its threads.
RoleBudget budget_of_all(int64_t threads, const GpuFacts& gpu);

/// Whether warps that wait for their budgets get them in a kernel compiled to so many registers.
/// The registers that it starts with are then enough for both roles.
bool has_registers_for(const RoleBudget& budget, int64_t compiled_registers);

}  // namespace tilewright
