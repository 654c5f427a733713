#include "emulator/memory/named_barrier.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tilewright::emulator {
namespace {

constexpr int kWarpgroup = 4 * kWarp;
// Registers of an SM of these devices, and the requests that the PTX ISA allows `setmaxnreg`.
constexpr int64_t kRegistersOfSm = 64 << 10;
constexpr int kRegisterStep = 8, kFewestRegisters = 24, kMostRegisters = 256;
constexpr int kMostOfKernel = 255;

}  // namespace

bool NamedBarriers::come(ThreadState& by, int64_t number, int64_t threads, bool wait, int line) {
  if (number < 1 || number >= kCount) {
    fail(FaultKind::BadBarrier, line,
         fmt::format("comes to barrier {}; a block has 1 to {} beside 0, which is that of "
                     "__syncthreads",
                     number, kCount - 1));
  }
  if (threads < kWarp || threads % kWarp != 0) {
    fail(
        FaultKind::BadBarrier, line,
        fmt::format("comes to barrier {} of {} threads; they come by whole warps, a multiple of {}",
                    number, threads, kWarp));
  }
  Barrier& b = barriers_[static_cast<size_t>(number)];
  if (b.come == 0) {
    b.threads = threads;
    b.line = line;
  }
  if (b.threads != threads) {
    fail(FaultKind::BadBarrier, line,
         fmt::format("comes to barrier {} of {} threads, which line {} counts as {}", number,
                     threads, b.line, b.threads));
  }
  ++b.come;
  release(by, b.arriving);
  if (wait) {
    by.wait = ThreadState::Wait::NamedBarrier;
    by.barrier = number;
    by.barrier_line = line;
    b.waiting.push_back(&by);
  }
  if (b.come < b.threads) return !wait;
  for (ThreadState* thread : b.waiting) {
    thread->seen.join(b.arriving);
    thread->wait = ThreadState::Wait::Ready;
  }
  b = {};
  return true;
}

std::string NamedBarriers::describe(const ThreadState& waiting) const {
  const Barrier& b = barriers_[static_cast<size_t>(waiting.barrier)];
  return fmt::format("waits at barrier {} in line {}, to which {} of {} threads have come",
                     waiting.barrier, waiting.barrier_line, b.come, b.threads);
}

// A kernel that bounds its threads has as many registers as they leave room for, by the step in which
// warps get them.
void RegisterBudget::begin_block(std::vector<ThreadState*> threads, int registers) {
  threads_ = std::move(threads);
  const auto count = static_cast<int64_t>(threads_.size());
  if (registers == 0) {
    const int64_t most =
        kRegistersOfSm / std::max<int64_t>(count, 1) / kRegisterStep * kRegisterStep;
    registers = static_cast<int>(std::min<int64_t>(most, kMostOfKernel));
  }
  for (ThreadState* thread : threads_) thread->registers = registers;
  free_ = 0;
}

bool RegisterBudget::set(ThreadState& by, int64_t registers, bool more, int line) {
  if (registers % kRegisterStep != 0 || registers < kFewestRegisters ||
      registers > kMostRegisters) {
    fail(FaultKind::BadRegisters, line,
         fmt::format("asks for {} registers per thread; they are a multiple of {} from {} to {}",
                     registers, kRegisterStep, kFewestRegisters, kMostRegisters));
  }
  const int64_t block = static_cast<int64_t>(threads_.size());
  if (block % kWarpgroup != 0) {
    fail(FaultKind::BadRegisters, line,
         fmt::format("changes the registers of a warpgroup of {} threads; the block has {}",
                     kWarpgroup, block));
  }
  if (more ? registers < by.registers : registers > by.registers) {
    fail(FaultKind::BadRegisters, line,
         fmt::format("{} the registers of a thread to {}; it has {}", more ? "raises" : "lowers",
                     registers, by.registers));
  }
  by.wait = ThreadState::Wait::Registers;
  by.barrier_line = line;
  by.wanted_registers = static_cast<int>(registers);
  // Another warpgroup may wait for registers that one gives back.
  bool any = true;
  while (any) {
    any = false;
    for (size_t first = 0; first < threads_.size(); first += kWarpgroup) any |= grant(first);
  }
  return by.wait == ThreadState::Wait::Ready;
}

// Gives the warpgroup from this thread on what it waits for, if all of it does and there is enough.
bool RegisterBudget::grant(size_t warpgroup) {
  const ThreadState& first = *threads_[warpgroup];
  const auto begin = threads_.begin() + static_cast<std::ptrdiff_t>(warpgroup);
  const bool together = std::all_of(begin, begin + kWarpgroup, [&](const ThreadState* t) {
    return t->wait == ThreadState::Wait::Registers && t->barrier_line == first.barrier_line &&
           t->wanted_registers == first.wanted_registers;
  });
  if (!together) return false;
  const int64_t wanted = int64_t{first.wanted_registers - first.registers} * kWarpgroup;
  if (wanted > free_) return false;
  free_ -= wanted;
  std::for_each(begin, begin + kWarpgroup, [](ThreadState* t) {
    t->registers = t->wanted_registers;
    t->wait = ThreadState::Wait::Ready;
  });
  return true;
}

std::string RegisterBudget::describe(const ThreadState& waiting) const {
  return fmt::format(
      "waits in line {} for {} registers per thread instead of {}, while the block has {} to give",
      waiting.barrier_line, waiting.wanted_registers, waiting.registers, free_);
}

}  // namespace tilewright::emulator
