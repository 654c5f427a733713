// Faults of a block as a whole: copies that outlive their thread, and threads that wait for each
// other.
#include <fmt/format.h>

#include <algorithm>

#include "emulator/scheduler.h"

namespace tilewright::emulator {

// A copy reads the shared memory of a block that has ended, or writes it: whoever asked for a store
// waits for its reads.
void Scheduler::check_end() const {
  const ThreadState& t = threads_[static_cast<size_t>(running_)].state;
  auto reads = [](const BulkCopy& copy) { return !copy.sources.empty(); };
  auto blamed = std::find_if(t.uncommitted_stores.begin(), t.uncommitted_stores.end(), reads);
  const BulkCopy* store = blamed == t.uncommitted_stores.end() ? nullptr : &*blamed;
  for (const std::vector<BulkCopy>& group : t.store_groups) {
    auto found = std::find_if(group.begin(), group.end(), reads);
    if (found != group.end()) store = &*found;
  }
  if (store == nullptr) return;
  Fault fault;
  fault.fault.kind = FaultKind::CopyInFlight;
  fault.fault.line = store->line;
  fault.fault.problem =
      "returns while this bulk store still reads shared memory: tw_bulk_wait_read<0>() goes before "
      "that";
  throw fault;
}

// The fault of a copy to shared memory that nobody waited for; copies to global memory arrive.
std::optional<EmulatorFault> Scheduler::unfinished_copy() {
  for (Thread& thread : threads_) {
    ThreadState& t = thread.state;
    for (const std::vector<BulkCopy>& group : t.store_groups) {
      for (const BulkCopy& copy : group) memory_.land(copy, memory_.mark_of(t, copy.line));
    }
  }
  const BulkCopy* copy = mbarriers_.left_over();
  if (copy == nullptr) return std::nullopt;
  EmulatorFault fault;
  fault.kind = FaultKind::CopyInFlight;
  fault.line = copy->line;
  fault.problem =
      "asks for this copy to shared memory, for which no thread waits before the block ends";
  const size_t place = (copy->by - 1) % threads_.size();
  return located(fault, threads_[place].state);
}

// The fault of a block that may have returned when another one of the cluster reaches into it.
std::optional<EmulatorFault> Scheduler::left_too_early() const {
  try {
    cluster_.check_end();
  } catch (const Fault& f) {
    return located(f.fault, *f.by);
  }
  return std::nullopt;
}

// "7", "7 of block 1".
std::string Scheduler::name_of_thread(size_t place) const {
  const std::string index = fmt::format("{}", place % block_threads());
  return blocks_.size() == 1 ? index
                             : fmt::format("{} of block {}", index, place / block_threads());
}

// All threads wait, one of them at a barrier of a part of the block: who waits where.
std::optional<EmulatorFault> Scheduler::deadlock() const {
  using Wait = ThreadState::Wait;
  auto partial = std::find_if(threads_.begin(), threads_.end(), [](const Thread& t) {
    return t.state.wait == Wait::MBarrier || t.state.wait == Wait::NamedBarrier ||
           t.state.wait == Wait::Registers || t.state.wait == Wait::Cluster;
  });
  if (partial == threads_.end()) return std::nullopt;
  const ThreadState& one = partial->state;
  EmulatorFault fault;
  fault.kind = FaultKind::Deadlock;
  fault.line = one.barrier_line;
  const std::string waits = doing(one);
  fault.problem = waits;
  // Threads next to each other that do the same are told together.
  for (size_t first = 0; first < threads_.size();) {
    const std::string what = doing(threads_[first].state);
    size_t end = first + 1;
    const size_t block_end = first_of(threads_[first].state.rank + 1);
    while (end < block_end && doing(threads_[end].state) == what) ++end;
    if (what != waits) {
      fault.problem += end == first + 1
                           ? fmt::format("; thread {} {}", name_of_thread(first), what)
                           : fmt::format("; of threads {} to {} each {}", first % block_threads(),
                                         name_of_thread(end - 1), what);
    }
    first = end;
  }
  return located(fault, one);
}

}  // namespace tilewright::emulator
