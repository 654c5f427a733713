#include "runtime/machine/disturbance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "runtime/machine/cpus.h"
#include "runtime/machine/timer.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

// A second on two processors in which one thread was never held up.
Load quiet() { return {.wall = 1, .thread = 1, .others = 0, .stolen = 0, .switches = 3}; }

TEST(Disturbance, NothingIsSaidOfAQuietSpan) {
  EXPECT_EQ(disturbance(quiet(), 1, 2), "");
  EXPECT_EQ(disturbance(quiet(), 2, 2), "");
  EXPECT_EQ(disturbance({}, 1, 1), "");
}

TEST(Disturbance, OtherWorkOnTheThreadsOwnProcessor) {
  Load load = quiet();
  load.thread = 0.52;
  EXPECT_EQ(disturbance(load, 1, 2), "other work had 48% of the measured thread's time");
  load.thread = 0.96;
  EXPECT_EQ(disturbance(load, 1, 2), "");
}

TEST(Disturbance, ProcessorsThatTheThreadsLeaveFreeAreForOthers) {
  Load load = quiet();
  load.others = 1;
  EXPECT_EQ(disturbance(load, 1, 2), "");
  EXPECT_EQ(disturbance(load, 2, 2),
            "other processes kept 1.0 of 2 processors busy beside 2 threads");
  EXPECT_EQ(disturbance(load, 2, 8), "");
  EXPECT_NE(disturbance(load, 8, 8), "");
}

TEST(Disturbance, GuestsAndRoomThatIsMadeOften) {
  Load load = quiet();
  load.stolen = 0.2;
  EXPECT_THAT(disturbance(load, 1, 2), HasSubstr("other guests"));
  load = quiet();
  load.switches = 250;
  EXPECT_EQ(disturbance(load, 1, 2), "threads were preempted 250 times per second");
  load = {.wall = 0.001, .thread = 0.001, .switches = 4};
  EXPECT_EQ(disturbance(load, 1, 2), "") << "a few in a short span say nothing";
}

TEST(Disturbance, ProcessorTimesAreThoseOfTheProcessorsThatCount) {
  const std::string stat =
      "cpu  1000 100 100 0 0 10 10 500 0 0\n"
      "cpu0 100 0 100 500 7 0 0 30 0 0\n"
      "cpu1 300 50 0 500 7 25 25 20 0 0\n"
      "cpu11 9000 0 0 0 0 0 0 9000 0 0\n"
      "intr 7 7 7 7 7 7 7 7 7\ncpu3 1 2\n";
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_DOUBLE_EQ(processor_times(stat, {0, 1}).busy, 600 * tick);
  EXPECT_DOUBLE_EQ(processor_times(stat, {0, 1}).stolen, 50 * tick);
  EXPECT_DOUBLE_EQ(processor_times(stat, {1}).busy, 400 * tick);
  EXPECT_DOUBLE_EQ(processor_times("", {0}).busy, 0);
}

// A thread that spins on the measuring thread's processor until the end.
class Neighbour {
 public:
  Neighbour() : cpu_(available_cpus().back()) {
    pin_current_thread(cpu_);
    thread_ = std::thread([this] {
      pin_current_thread(cpu_);
      while (!stop_) {
      }
    });
  }
  ~Neighbour() {
    stop_ = true;
    thread_.join();
    unpin_current_thread();
  }

 private:
  int cpu_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

void work() {
  volatile double sum = 0;
  for (int i = 0; i < 200'000; ++i) sum = sum * 0.5 + 1;
}

TEST(Disturbance, ABusyNeighbourIsNoticedAndTheProcessorsTimeDecides) {
  TimingOptions options;
  options.threads = 1;
  options.min_seconds = 0.3;
  options.max_seconds = 0.6;
  options.sample_seconds = 0.02;
  const Neighbour neighbour;
  const Timing timing = measure(work, options);
  EXPECT_THAT(timing.disturbed, HasSubstr("of the measured thread's time"));
  EXPECT_GT(timing.wall_median, timing.median);
}

}  // namespace
}  // namespace tilewright
