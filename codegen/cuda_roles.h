// Kernels whose warps have roles: those that copy ahead, and those that compute.
#pragma once

#include <cstdint>

#include "codegen/target.h"

namespace tilewright {

// Annotations of a kernel's outermost loop over blocks, once it is lowered. Threads from
// kConsumersKey on are the producers; where registers are shared out between the roles there are both
// budgets.
inline constexpr const char* kConsumersKey = "consumer_threads";
inline constexpr const char* kConsumerRegistersKey = "consumer_registers";
inline constexpr const char* kProducerRegistersKey = "producer_registers";

/// Threads of a kernel with roles, and the registers of a thread; 0 where nobody gives any away.
struct RoleBudget {
  int64_t consumers, producers;
  int64_t consumer_registers = 0, producer_registers = 0;

  int64_t threads() const { return consumers + producers; }
};

/// Of kernels with so many threads that compute. A single warpgroup may have all registers that a
/// thread can have, beside one warp that copies. Several give most of those of a warpgroup that copies
/// to themselves, by `setmaxnreg`: budgets are multiples of 8 from 24 to 240, and no more together than
/// the block has when it starts, which is what its threads leave room for, a multiple of 8.
/// Where those that copy are `busy`, to copy for other blocks, too, or to find their tiles along a curve,
/// they keep 40 and not the least, without which they would keep addresses in memory.
RoleBudget role_budget(int64_t consumers, const GpuFacts& gpu, bool busy = false);

/// The one of a kernel whose registers change hands and that has so many threads in all.
RoleBudget budget_of_all(int64_t threads, const GpuFacts& gpu);

/// Whether warps that wait for their budgets get them in a kernel that was compiled to so many
/// registers: those that it starts with are then enough for both roles.
bool has_registers_for(const RoleBudget& budget, int64_t compiled_registers);

}  // namespace tilewright
