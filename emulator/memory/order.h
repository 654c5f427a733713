// A vector clock: the steps of other threads that a thread of a cluster knows to be over, where
// barriers hold for a part of a block or for several of them. Barriers of its whole block are
// counted apart (ThreadState::epoch), so a kernel that has no others carries none of this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilewright::emulator {

struct Order {
  // By place in the cluster: what that thread did while its clock was below this.
  std::vector<uint32_t> threads;
  // By warp of the cluster: what its lanes did before so many __syncwarp, which order lanes without
  // clocks.
  std::vector<uint32_t> warps;
  // By mbarrier: the copies of so many of its phases.
  std::vector<uint32_t> copies;
  // By block of the cluster: what its threads did before this epoch.
  std::vector<uint32_t> blocks;

  // Knows what `other` knows, too.
  void join(const Order& other);
  static uint32_t at(const std::vector<uint32_t>& clocks, size_t i) {
    return i < clocks.size() ? clocks[i] : 0;
  }
  // Raises one clock; those that are not there yet are 0.
  static void raise(std::vector<uint32_t>& clocks, size_t i, uint32_t to);
};

struct ThreadState;

// Adds to `to` what `by` has done and knows so far; what it does from now on is not in it.
void release(ThreadState& by, Order& to);

}  // namespace tilewright::emulator
