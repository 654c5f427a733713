#include "emulator/memory/order.h"

#include <algorithm>

#include "emulator/thread_state.h"

namespace tilewright::emulator {
namespace {

void join_clocks(std::vector<uint32_t>& to, const std::vector<uint32_t>& from) {
  if (to.size() < from.size()) to.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
}

}  // namespace

void Order::join(const Order& other) {
  join_clocks(threads, other.threads);
  join_clocks(warps, other.warps);
  join_clocks(copies, other.copies);
  join_clocks(blocks, other.blocks);
}

void Order::raise(std::vector<uint32_t>& clocks, size_t i, uint32_t to) {
  if (clocks.size() <= i) clocks.resize(i + 1);
  clocks[i] = std::max(clocks[i], to);
}

void release(ThreadState& by, Order& to) {
  to.join(by.seen);
  Order::raise(to.threads, static_cast<size_t>(by.place), ++by.clock);
  Order::raise(to.warps, static_cast<size_t>(by.place_of_warp), by.warp_epoch);
  Order::raise(to.blocks, static_cast<size_t>(by.rank), by.epoch);
}

}  // namespace tilewright::emulator
