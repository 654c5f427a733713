#include "runtime/machine/timer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tilewright {
namespace {

// A clock that runs only when the measured thing says so: no test waits for real time.
struct FakeTime {
  double now = 0;
  ClockFn clock() {
    return [this] { return now; };
  }
  // Takes `seconds` a run, with deterministic noise of +-`noise` of it.
  std::function<void()> run(double seconds, double noise = 0) {
    return [this, seconds, noise, state = 1u]() mutable {
      state = state * 1664525u + 1013904223u;
      now += seconds * (1 + noise * (state / 2147483648.0 - 1));
      ++runs;
    };
  }
  int runs = 0;
};

TEST(Timer, SteadyRunNeedsFewSamples) {
  FakeTime time;
  TimingOptions options;
  options.sample_seconds = 0.95e-3;
  Timing t = measure(time.run(1e-4), options, time.clock());
  EXPECT_NEAR(t.median, 1e-4, 1e-10);
  EXPECT_EQ(t.repeats, 10);  // fill the wanted time of a sample
  EXPECT_LE(t.relative_ci(), 0.02);
  EXPECT_GE(t.samples.size(), 6u);
  EXPECT_LT(t.samples.size(), 50u);
  EXPECT_FALSE(t.stopped_early);
}

// One thread that has the processor for a share of the time.
TEST(Timer, TheProcessorsTimeDecidesForOneThreadWhereTheClocksDisagree) {
  const auto timed = [](int threads, double share) {
    FakeTime time;
    TimingOptions options;
    options.threads = threads;
    return measure(time.run(1e-3), options, time.clock(), [&] { return share * time.now; });
  };
  EXPECT_NEAR(timed(1, 0.5).median, 0.5e-3, 1e-9);
  EXPECT_NEAR(timed(1, 0.5).wall_median, 1e-3, 1e-9);
  EXPECT_NEAR(timed(1, 0.97).median, 1e-3, 1e-9) << "within the noise of the clocks";
  EXPECT_NEAR(timed(2, 0.5).median, 1e-3, 1e-9) << "the other thread may have been held up";
  EXPECT_NEAR(timed(0, 0.5).median, 1e-3, 1e-9) << "who runs it is not known";
}

TEST(Timer, NoisyRunIsSampledUntilTheIntervalIsSmall) {
  FakeTime time;
  TimingOptions options;
  options.max_seconds = 1e9;
  options.max_samples = 10000;
  options.sample_seconds = 0;
  options.relative_ci = 0.05;
  Timing t = measure(time.run(1e-3, 0.5), options, time.clock());
  EXPECT_LE(t.relative_ci(), 0.05);
  EXPECT_LT(t.ci_low, t.ci_high);
  Timing quiet = measure(time.run(1e-3, 0.0), options, time.clock());
  EXPECT_GT(t.samples.size(), quiet.samples.size());
}

TEST(Timer, LimitsEndAHopelessMeasurement) {
  FakeTime time;
  TimingOptions options;
  options.relative_ci = 0;
  options.max_samples = 40;
  options.max_seconds = 1e9;
  EXPECT_EQ(measure(time.run(1e-3, 0.9), options, time.clock()).samples.size(), 40u);
  options.max_seconds = 0.01;
  EXPECT_LE(measure(time.run(1e-3, 0.9), options, time.clock()).samples.size(), 11u);
  EXPECT_EQ(measure(time.run(100), options, time.clock()).samples.size(), 3u);
}

TEST(Timer, CutoffStopsAfterTwoSlowSamples) {
  FakeTime time;
  TimingOptions options;
  options.cutoff_seconds = 1e-3;
  Timing slow = measure(time.run(2e-3), options, time.clock());
  EXPECT_TRUE(slow.stopped_early);
  EXPECT_EQ(slow.samples.size(), 2u);
  EXPECT_NEAR(slow.median, 2e-3, 1e-9);
  Timing fast = measure(time.run(0.5e-3), options, time.clock());
  EXPECT_FALSE(fast.stopped_early);
}

// A search compares the fastest exactly; of the others it learns, and a tenth is close enough.
TEST(Timer, SlowOnesAreKnownToATenth) {
  FakeTime time;
  TimingOptions options;
  options.min_seconds = 0;
  const size_t exact = measure(time.run(2e-3, 0.1), options, time.clock()).samples.size();
  options.coarse_above_seconds = 1.5e-3;
  const Timing slow = measure(time.run(2e-3, 0.1), options, time.clock());
  EXPECT_LT(slow.samples.size(), exact / 2);
  EXPECT_LE(slow.relative_ci(), 0.1);
  options.coarse_above_seconds = 2.5e-3;
  EXPECT_EQ(measure(time.run(2e-3, 0.1), options, time.clock()).samples.size(), exact);
}

TEST(Timer, FarBeyondTheCutoffTheWarmUpIsEnough) {
  FakeTime time;
  TimingOptions options;
  options.cutoff_seconds = 1e-3;
  Timing t = measure(time.run(1.0), options, time.clock());
  EXPECT_TRUE(t.stopped_early);
  EXPECT_EQ(time.runs, 1);
  EXPECT_EQ(t.median, 1.0);
}

TEST(Timer, ARunThatIsSlowInItselfIsTheOnlySample) {
  FakeTime time;
  TimingOptions options;
  options.lone_run_seconds = 0.5;
  Timing slow = measure(time.run(2.0), options, time.clock());
  EXPECT_EQ(time.runs, 1);
  EXPECT_EQ(slow.median, 2.0);
  EXPECT_TRUE(slow.stopped_early);
  Timing fast = measure(time.run(0.4), options, time.clock());
  EXPECT_GE(fast.samples.size(), 3u);
  // In turns with others every one has its samples.
  EXPECT_EQ(measure_interleaved({time.run(2.0)}, options, time.clock())[0].samples.size(), 3u);
}

TEST(Timer, ColdCacheMeansOneRunASample) {
  FakeTime time;
  TimingOptions options;
  options.cache = CacheState::Cold;
  options.min_seconds = 0;  // each sample writes twice the last cache
  Timing t = measure(time.run(1e-4), options, time.clock());
  EXPECT_EQ(t.repeats, 1);
  EXPECT_EQ(t.cache, CacheState::Cold);
  EXPECT_EQ(name_of(t.cache), "cold");
}

TEST(Timer, SummaryOfKnownSamples) {
  Timing t;
  t.samples = {5, 1, 3, 2, 4};
  summarize(&t);
  EXPECT_EQ(t.median, 3);
  EXPECT_EQ(t.mean, 3);
  EXPECT_EQ(t.min, 1);
  EXPECT_EQ(t.ci_low, 1);
  EXPECT_EQ(t.ci_high, 5);
  t.samples.clear();
  for (int i = 1; i <= 100; ++i) t.samples.push_back(i);
  summarize(&t);
  EXPECT_EQ(t.median, 50.5);
  EXPECT_EQ(t.ci_low, 41);  // ranks 40 and 60 of the exact binomial interval, rounded outwards
  EXPECT_EQ(t.ci_high, 61);
}

TEST(Timer, InterleavedTakesTurnsAndComparesPerRound) {
  FakeTime time;
  std::string order;
  double drift = 1;
  auto subject = [&](char name, double seconds) {
    return std::function<void()>([&, name, seconds] {
      order += name;
      drift *= 1.001;  // a machine that slows down meets both alike
      time.now += seconds * drift;
    });
  };
  TimingOptions options;
  options.sample_seconds = 0;
  options.warmup_seconds = 0;
  options.max_samples = 50;
  std::vector<Timing> t =
      measure_interleaved({subject('a', 2e-3), subject('b', 1e-3)}, options, time.clock());
  ASSERT_EQ(t.size(), 2u);
  EXPECT_EQ(t[0].samples.size(), t[1].samples.size());
  EXPECT_EQ(order.substr(0, 8), "abababab");
  EXPECT_NEAR(median_ratio(t[0], t[1]), 2.0, 0.01);
}

TEST(Timer, RealClockMeasuresSomethingPositive) {
  volatile double sink = 0;
  TimingOptions options;
  options.max_seconds = 0.02;
  options.min_seconds = 0.001;
  Timing t = measure(
      [&] {
        for (int i = 0; i < 1000; ++i) sink = sink + 1;
      },
      options);
  EXPECT_GT(t.median, 0);
  EXPECT_GE(t.repeats, 1);
}

}  // namespace
}  // namespace tilewright
