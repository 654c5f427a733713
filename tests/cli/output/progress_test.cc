// The time that is left of a tuning run.
#include "cli/output/progress.h"

#include <gtest/gtest.h>

namespace tilewright::cli {
namespace {

TuneProgress after(double elapsed, int64_t done, int64_t remaining, double limit = 0) {
  TuneProgress p;
  p.elapsed = elapsed;
  p.done = done;
  p.remaining = remaining;
  p.limit = limit;
  return p;
}

TEST(Progress, TimeLeftCountsTheTrialsOfAllWorkloads) {
  EXPECT_EQ(seconds_left(after(10, 20, 60)), 30);
  EXPECT_EQ(seconds_left(after(10, 20, 0)), 0);
  EXPECT_EQ(seconds_left(after(3, 0, 60)), 0) << "no pace is known yet";
}

TEST(Progress, ShortTimesHaveDigits) {
  EXPECT_EQ(readable_seconds(2.34e-8), "23 ns");
  EXPECT_EQ(readable_seconds(1.26e-6), "1.3 us");
  EXPECT_EQ(readable_seconds(9.9996e-7), "1.0 us") << "1000 ns";
  EXPECT_EQ(readable_seconds(0), "-");
}

TEST(Progress, TimeLeftStopsAtTheLimit) {
  EXPECT_EQ(seconds_left(after(10, 20, 60, 25)), 15);
  EXPECT_EQ(seconds_left(after(10, 20, 60, 90)), 30) << "the trials end first";
  EXPECT_EQ(seconds_left(after(30, 20, 60, 25)), 0) << "over time";
}

}  // namespace
}  // namespace tilewright::cli
