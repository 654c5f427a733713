#include "runtime/thread_pool.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>

#include "base/error.h"
#include "base/knobs.h"
#include "runtime/machine/cpus.h"

namespace tilewright {
namespace {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void futex_wait(std::atomic<uint32_t>* word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, expected, nullptr,
          nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr,
          nullptr, 0);
}

void pool_parallel_for(void* pool, int64_t n, ThreadPool::Body body, void* closure) {
  static_cast<ThreadPool*>(pool)->parallel_for(n, body, closure);
}

}  // namespace

ThreadPool::ThreadPool(const ThreadPoolOptions& options)
    : threads_(options.threads), pin_(options.pin && knob_boolean(Knob::Pin) &&
                                      options.threads <= static_cast<int>(available_cpus().size())),
      spin_microseconds_(options.spin_microseconds >= 0 ? options.spin_microseconds
                                                        : knob_integer(Knob::SpinMicroseconds)) {
  if (threads_ < 1 || threads_ > 4096) {
    throw Error("a thread pool of " + std::to_string(threads_) + " threads; expected 1 to 4096");
  }
  if (threads_ > static_cast<int>(available_cpus().size())) spin_microseconds_ = 0;
  shares_ = std::make_unique<Share[]>(static_cast<size_t>(threads_));
  for (int worker = 1; pin_ && worker < threads_; ++worker) {
    claims_.push_back(CpuClaim::take(static_cast<size_t>(worker)));
  }
}

ThreadPool::ThreadPool(std::vector<CpuClaim> helpers)
    : threads_(static_cast<int>(helpers.size()) + 1), pin_(true),
      spin_microseconds_(knob_integer(Knob::SpinMicroseconds)),
      shares_(std::make_unique<Share[]>(helpers.size() + 1)), claims_(std::move(helpers)) {}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_release);
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(&epoch_);
  for (std::thread& helper : helpers_) helper.join();
}

tw_context ThreadPool::context(void* workspace) {
  return {threads_, pool_parallel_for, this, workspace};
}

void ThreadPool::start_helpers() {
  started_ = true;
  helpers_.reserve(static_cast<size_t>(threads_ - 1));
  for (int worker = 1; worker < threads_; ++worker) {
    helpers_.emplace_back([this, worker] { helper_main(worker); });
  }
}

void ThreadPool::parallel_for(int64_t n, Body body, void* closure) {
  if (n <= 0) return;
  if (threads_ == 1 || n == 1 || busy_.exchange(true, std::memory_order_acquire)) {
    body(closure, 0, n, 0);
    return;
  }
  if (!started_) start_helpers();
  body_ = body;
  closure_ = closure;
  for (int w = 0; w < threads_; ++w) {
    // Evenly, without overflow: quotient each, and one more for the first `remainder` workers.
    int64_t quotient = n / threads_, remainder = n % threads_;
    int64_t begin = w * quotient + std::min<int64_t>(w, remainder);
    shares_[w].end = begin + quotient + (w < remainder);
    shares_[w].next.store(begin, std::memory_order_relaxed);
  }
  uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  state_.store(uint64_t{epoch} << 32 | kOpen, std::memory_order_release);
  epoch_.store(epoch, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) futex_wake_all(&epoch_);
  work(0);
  wait_for_helpers();
  busy_.store(false, std::memory_order_release);
}

// Closes the loop to late helpers, then waits for those inside.
void ThreadPool::wait_for_helpers() {
  uint64_t state = state_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  for (int spins = 0; static_cast<uint32_t>(state) != 0; ++spins) {
    // With a processor each, a helper finishes its portion soon; else it needs ours.
    if (spin_microseconds_ == 0 || spins > 4096) {
      sched_yield();
    } else {
      relax();
    }
    state = state_.load(std::memory_order_acquire);
  }
}

void ThreadPool::helper_main(int worker) {
  if (pin_) claims_[static_cast<size_t>(worker - 1)].pin();
  // From 0: a loop that was published before this thread ran is still joined.
  for (uint32_t seen = 0;;) {
    seen = await_epoch(seen);
    if (stop_.load(std::memory_order_acquire)) return;
    if (join(seen)) {
      work(worker);
      leave();
    }
  }
}

uint32_t ThreadPool::await_epoch(uint32_t seen) {
  using Clock = std::chrono::steady_clock;
  if (spin_microseconds_ > 0) {
    auto deadline = Clock::now() + std::chrono::microseconds(spin_microseconds_);
    do {
      for (int i = 0; i < 32; ++i) {
        uint32_t epoch = epoch_.load(std::memory_order_acquire);
        if (epoch != seen) return epoch;
        relax();
      }
    } while (Clock::now() < deadline);
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  uint32_t epoch;
  while ((epoch = epoch_.load(std::memory_order_seq_cst)) == seen) futex_wait(&epoch_, seen);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return epoch;
}

bool ThreadPool::join(uint32_t epoch) {
  uint64_t state = state_.load(std::memory_order_relaxed);
  while (static_cast<uint32_t>(state >> 32) == epoch && (state & kOpen) != 0) {
    if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void ThreadPool::leave() { state_.fetch_sub(1, std::memory_order_release); }

void ThreadPool::work(int worker) {
  Body body = body_;
  void* closure = closure_;
  int64_t begin, end;
  for (int i = 0; i < threads_; ++i) {
    Share& share = shares_[(worker + i) % threads_];
    while (take(share, &begin, &end)) body(closure, begin, end, worker);
  }
}

// A quarter of what is left of the share, at least one iteration.
bool ThreadPool::take(Share& share, int64_t* begin, int64_t* end) {
  int64_t next = share.next.load(std::memory_order_relaxed);
  while (next < share.end) {
    int64_t portion = std::max<int64_t>(1, (share.end - next) / 4);
    if (share.next.compare_exchange_weak(next, next + portion, std::memory_order_relaxed)) {
      *begin = next;
      *end = next + portion;
      return true;
    }
  }
  return false;
}

}  // namespace tilewright
