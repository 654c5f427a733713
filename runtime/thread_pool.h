// The threads that run a kernel's parallel loops.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "kernel/kernel_abi.h"
#include "runtime/machine/cpu_claim.h"

namespace tilewright {

struct ThreadPoolOptions {
  int threads = 1;
  // Helpers are pinned to one processor each, from the second of available_cpus() on, when there
  // are enough of them and no pool of this or another process has it (cpu_claim.h). A helper that
  // finds none goes where the system puts it. The calling thread is left alone: see
  // pin_current_thread.
  bool pin = true;
  // How long an idle thread spins before it sleeps; -1: the knob TILEWRIGHT_SPIN_US. With more
  // threads than processors nobody spins.
  int64_t spin_microseconds = -1;
};

// `threads - 1` helpers and the calling thread, which is worker 0. A loop over [0, n) is divided
// evenly, and a worker that is done takes from the others in shrinking portions. The same worker
// gets the same part of the same loop each time while nobody lags, which keeps caches warm. A
// helper that is not awake in time is not waited for.
//
// parallel_for may be called from any thread. One loop is in flight at a time: a call that finds
// the pool busy, from another thread or from inside a body, runs its whole range itself as worker
// 0. The body must not throw. Helpers start with the first loop of more than one iteration.
class ThreadPool {
 public:
  using Body = void (*)(void* closure, int64_t begin, int64_t end, int32_t worker);

  explicit ThreadPool(const ThreadPoolOptions& options);
  explicit ThreadPool(int threads) : ThreadPool(ThreadPoolOptions{.threads = threads}) {}
  // The calling thread and a helper on each of these processors.
  explicit ThreadPool(std::vector<CpuClaim> helpers);
  // No loop may be in flight.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  void parallel_for(int64_t n, Body body, void* closure);
  // The context that lets a kernel run its loops here. The pool must outlive its use.
  tw_context context(void* workspace = nullptr);

 private:
  // One worker's share of the loop in flight; on a cache line of its own.
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };

  void start_helpers();
  void helper_main(int worker);
  // Spins, then sleeps, until the epoch is another than `seen`; returns it.
  uint32_t await_epoch(uint32_t seen);
  bool join(uint32_t epoch);
  void leave();
  void work(int worker);
  bool take(Share& share, int64_t* begin, int64_t* end);
  void wait_for_helpers();

  // state_: epoch of the loop (high 32 bits), whether it may be joined (bit 31), and how many
  // helpers are inside. Body, closure and shares are written while it is closed with nobody inside.
  static constexpr uint64_t kOpen = uint64_t{1} << 31;

  const int threads_;
  const bool pin_;
  int64_t spin_microseconds_;
  bool started_ = false;  // written by the owner of busy_
  std::atomic<bool> busy_{false};
  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};  // what sleepers wait on
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  Body body_ = nullptr;
  void* closure_ = nullptr;
  std::unique_ptr<Share[]> shares_;
  std::vector<CpuClaim> claims_;  // of the helpers, where they are pinned
  std::vector<std::thread> helpers_;
};

}  // namespace tilewright
