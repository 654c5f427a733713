#include "tests/schedule/fuzz/fuzz_schedule.h"

#include <gtest/gtest.h>

namespace tilewright::test {
namespace {

constexpr uint64_t kCases = 2000;  // unless TILEWRIGHT_FUZZ_CASES is set
constexpr uint64_t kShards = 8;

class FuzzSchedule : public ::testing::TestWithParam<uint64_t> {};

TEST_P(FuzzSchedule, RandomSchedulesKeepTheMeaning) {
  uint64_t steps = 0, refused = 0;
  for (uint64_t i = 0; i < total_cases(kCases) / kShards; ++i) {
    FuzzCase c = fuzz_schedule(first_seed() + GetParam() + i * kShards);
    steps += c.steps.size();
    refused += static_cast<uint64_t>(c.refused);
    EXPECT_TRUE(c.failure.empty()) << describe(c);
  }
  // A test in which every step, or none, is refused would test little.
  if (total_cases(kCases) >= 800) {
    EXPECT_GT(steps, 2 * total_cases(kCases) / kShards);
    EXPECT_GT(refused, total_cases(kCases) / kShards);
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, FuzzSchedule, ::testing::Range<uint64_t>(0, kShards));

TEST(FuzzScheduleItself, SameSeedSameCase) {
  EXPECT_EQ(describe(fuzz_schedule(42)), describe(fuzz_schedule(42)));
}

TEST(FuzzScheduleItself, RefusedStepsAreNoFailure) {
  RandomSpec spec{"matmul:m=4,n=4,k=4", {}, true};
  EXPECT_EQ(check_steps(spec, {}), "");
  EXPECT_EQ(check_steps(spec, {{"parallel", R"({"loop":"k"})", {}}}), std::nullopt);
}

}  // namespace
}  // namespace tilewright::test
