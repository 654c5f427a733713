#include "runtime/thread_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/machine/cpus.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

// Counts how often each iteration ran, and notices a worker number that is used twice at once.
struct Audit {
  explicit Audit(int64_t n, int threads) : counts(static_cast<size_t>(n)), inside(threads) {}
  static void body(void* closure, int64_t begin, int64_t end, int32_t worker) {
    auto* a = static_cast<Audit*>(closure);
    if (worker < 0 || worker >= static_cast<int>(a->inside.size())) {
      a->faults++;
      return;
    }
    if (a->inside[static_cast<size_t>(worker)].exchange(true)) a->faults++;
    for (int64_t i = begin; i < end; ++i) a->counts[static_cast<size_t>(i)]++;
    a->inside[static_cast<size_t>(worker)] = false;
  }
  bool each_once() const {
    for (const auto& c : counts) {
      if (c != 1) return false;
    }
    return faults == 0;
  }
  std::vector<std::atomic<int>> counts;
  std::vector<std::atomic<bool>> inside;
  std::atomic<int> faults{0};
};

TEST(ThreadPool, RunsEachIterationOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int64_t n : {0, 1, 2, 3, 7, 64, 1001}) {
      for (int round = 0; round < 20; ++round) {
        Audit audit(n, threads);
        pool.parallel_for(n, Audit::body, &audit);
        ASSERT_TRUE(audit.each_once()) << threads << " threads, n = " << n;
      }
    }
  }
}

TEST(ThreadPool, SleepingHelpersWakeUp) {
  ThreadPool pool({.threads = 2, .spin_microseconds = 0});
  for (int round = 0; round < 50; ++round) {
    // The loop ends only when the other worker has arrived, so a helper that sleeps on is noticed.
    struct Meeting {
      std::atomic<int> arrived{0};
    } meeting;
    pool.parallel_for(
        2,
        [](void* closure, int64_t, int64_t, int32_t) {
          auto* m = static_cast<Meeting*>(closure);
          m->arrived++;
          while (m->arrived < 2) std::this_thread::yield();
        },
        &meeting);
    EXPECT_EQ(meeting.arrived, 2);
    if (round % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST(ThreadPool, CallerIsWorkerZero) {
  ThreadPool pool(2);
  struct Seen {
    std::thread::id caller;
    std::atomic<int> wrong{0};
  } seen{std::this_thread::get_id(), {}};
  pool.parallel_for(
      100,
      [](void* closure, int64_t, int64_t, int32_t worker) {
        auto* s = static_cast<Seen*>(closure);
        if ((worker == 0) != (std::this_thread::get_id() == s->caller)) s->wrong++;
      },
      &seen);
  EXPECT_EQ(seen.wrong, 0);
}

TEST(ThreadPool, NestedLoopRunsInPlace) {
  ThreadPool pool(4);
  struct Nest {
    ThreadPool* pool;
    std::atomic<int64_t> sum{0};
  } nest{&pool, {}};
  pool.parallel_for(
      8,
      [](void* closure, int64_t begin, int64_t end, int32_t) {
        auto* outer = static_cast<Nest*>(closure);
        for (int64_t i = begin; i < end; ++i) {
          outer->pool->parallel_for(
              10,
              [](void* inner, int64_t b, int64_t e, int32_t worker) {
                static_cast<Nest*>(inner)->sum += (e - b) + 1000 * worker;
              },
              outer);
        }
      },
      &nest);
  EXPECT_EQ(nest.sum, 80);
}

TEST(ThreadPool, CallersFromManyThreadsAllFinish) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        Audit audit(37, 3);
        pool.parallel_for(37, Audit::body, &audit);
        good += audit.each_once();
      }
    });
  }
  for (std::thread& c : callers) c.join();
  EXPECT_EQ(good, 400);
}

TEST(ThreadPool, ContextSpeaksTheKernelsConvention) {
  ThreadPool pool(2);
  int marker = 0;
  tw_context context = pool.context(&marker);
  EXPECT_EQ(context.threads, 2);
  EXPECT_EQ(context.workspace, &marker);
  Audit audit(10, 2);
  context.parallel_for(context.pool, 10, Audit::body, &audit);
  EXPECT_TRUE(audit.each_once());
}

TEST(ThreadPool, HelpersArePinnedAndTheCallerIsNot) {
  if (available_cpus().size() < 2) GTEST_SKIP() << "one processor";
  if (CpuClaim::take(1).cpu() < 0) GTEST_SKIP() << "other pools have all processors";
  ThreadPool pool(2);
  struct Masks {
    std::atomic<int> arrived{0};
    int processors[2] = {0, 0};
  } masks;
  pool.parallel_for(
      2,
      [](void* closure, int64_t, int64_t, int32_t worker) {
        auto* m = static_cast<Masks*>(closure);
        cpu_set_t set;
        sched_getaffinity(0, sizeof set, &set);
        m->processors[worker] = CPU_COUNT(&set);
        m->arrived++;
        while (m->arrived < 2) std::this_thread::yield();
      },
      &masks);
  EXPECT_EQ(masks.processors[1], 1);
  EXPECT_EQ(masks.processors[0], static_cast<int>(available_cpus().size()));
}

TEST(ThreadPool, MoreThreadsThanProcessorsStillFinish) {
  ThreadPool pool(static_cast<int>(available_cpus().size()) * 4 + 3);
  for (int round = 0; round < 50; ++round) {
    Audit audit(501, pool.threads());
    pool.parallel_for(501, Audit::body, &audit);
    ASSERT_TRUE(audit.each_once());
  }
}

TEST(ThreadPool, RefusesOddNumbersOfThreads) {
  for (int threads : {0, -1, 5000}) {
    EXPECT_THAT(test::error_of<Error>([&] { ThreadPool pool(threads); }),
                testing::HasSubstr("expected 1 to 4096"));
  }
}

TEST(Cpus, PinningHoldsUntilUndone) {
  std::thread([] {
    ASSERT_TRUE(pin_current_thread(available_cpus().back()));
    EXPECT_EQ(sched_getcpu(), available_cpus().back());
    ASSERT_TRUE(unpin_current_thread());
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    EXPECT_EQ(CPU_COUNT(&set), static_cast<int>(available_cpus().size()));
  }).join();
  EXPECT_GE(available_cores(), 1);
}

}  // namespace
}  // namespace tilewright
