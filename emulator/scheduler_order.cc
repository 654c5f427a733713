// The order in which the threads of a cluster run.
#include <algorithm>
#include <utility>

#include "emulator/scheduler.h"
#include "kernel/instructions/wgmma_rows.h"

namespace tilewright::emulator {
namespace {

// Orders from this on, in which threads let others run before they look at an mbarrier.
constexpr uint64_t kPatientOrders = 2;

// SplitMix64: the same order on every machine.
uint64_t next_random(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

void permute(std::vector<int>& order, uint64_t& random) {
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(next_random(random) % i)]);
  }
}

}  // namespace

void Scheduler::shuffle_order() {
  if (options_.seed == 0) return;
  permute(warp_order_, random_);
  permute(lane_order_, random_);
}

bool Scheduler::any_ready() const {
  return std::any_of(threads_.begin(), threads_.end(),
                     [](const Thread& t) { return t.state.wait == ThreadState::Wait::Ready; });
}

void Scheduler::let_others_run() {
  if (options_.seed < kPatientOrders) return;
  running().wait = ThreadState::Wait::Others;
  yield();
}

// Lets the threads of one warpgroup go on that have let others run; whether there were any. So a warpgroup
// gets as far ahead of another one as barriers allow.
bool Scheduler::resume_patient() {
  const auto is_patient = [](const Thread& t) { return t.state.wait == ThreadState::Wait::Others; };
  if (std::none_of(threads_.begin(), threads_.end(), is_patient)) return false;
  shuffle_order();
  const ThreadState* first = nullptr;
  for (size_t i = 0; i < warp_order_.size() && !first; ++i) {
    const auto in_warp = std::find_if(threads_.begin(), threads_.end(), [&](const Thread& t) {
      return is_patient(t) && t.state.place_of_warp == warp_order_[i];
    });
    if (in_warp != threads_.end()) first = &in_warp->state;
  }
  for (Thread& t : threads_) {
    const bool is_beside =
        t.state.rank == first->rank && t.state.index / kWarpgroup == first->index / kWarpgroup;
    if (is_patient(t) && is_beside) t.state.wait = ThreadState::Wait::Ready;
  }
  return true;
}

}  // namespace tilewright::emulator
