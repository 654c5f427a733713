// Candidates that a slow minute would have cost, on times that the tests make up.
#include "tuner/measure/second_look.h"

#include <gmock/gmock.h>

#include <map>

namespace tilewright {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Measurement valid(const std::string& name, double seconds) {
  Measurement m;
  m.verdict = TrialVerdict::Valid;
  m.object = name;
  m.samples = {1.1 * seconds, seconds, 1.2 * seconds};
  m.median = 1.1 * seconds;
  m.in_full = true;
  return m;
}

class SecondLookTest : public testing::Test {
 protected:
  // Looks at a batch; the next `slow_for_` kernels take `slowness_` times their seconds.
  void look(std::vector<Measurement>& batch, double best, const std::string& workload = "w") {
    timed_.clear();
    look_.look(workload, batch, best, [&](const Measurement& m) {
      timed_.push_back(m.object);
      const double factor = slow_for_-- > 0 ? slowness_ : 1;
      return std::vector<double>{factor * seconds_.at(m.object)};
    });
  }

  SecondLook look_;
  std::map<std::string, double> seconds_;
  double slowness_ = 1.3;
  int slow_for_ = 0;
  std::vector<std::string> timed_;
};

TEST(TakeFaster, KeepsTheLesserMedianAndTheLeastSample) {
  Measurement m = valid("a", 1);
  take_faster(m, {0.99, 1.4, 1.5}, 1.4);
  EXPECT_EQ(m.median, 1.1);
  EXPECT_THAT(m.samples, ElementsAre(1.1, 1, 1.2, 0.99));
  take_faster(m, {1, 1.01, 1.02}, 1.01);
  EXPECT_EQ(m.median, 1.01);
  EXPECT_THAT(m.samples, ElementsAre(1, 1.01, 1.02, 0.99));
  take_faster(m, {}, 0);
  EXPECT_EQ(m.median, 1.01);
}

TEST_F(SecondLookTest, TheFasterTimingIsKept) {
  seconds_ = {{"a", 1}, {"b", 0.9}, {"c", 2}};
  std::vector<Measurement> batch = {valid("a", 1), valid("b", 1.3), valid("c", 2)};
  slow_for_ = 1;  // "a" is timed in a slow moment now
  look(batch, 1.1);
  EXPECT_THAT(timed_, ElementsAre("a", "b"));  // "c" cannot win
  EXPECT_EQ(batch[0].median, 1.1);
  EXPECT_EQ(batch[1].median, 0.9);
  EXPECT_EQ(batch[2].median, 2.2);
}

// One stall in the first run ended the timing.
TEST_F(SecondLookTest, ATimingThatWasCutOffIsRepeated) {
  seconds_ = {{"a", 1}, {"b", 0.9}};
  std::vector<Measurement> batch = {valid("a", 1), valid("b", 50)};
  batch[1].samples = {50};
  look(batch, 1);
  EXPECT_THAT(timed_, ElementsAre("a", "b"));
  EXPECT_EQ(batch[1].median, 0.9);
}

TEST_F(SecondLookTest, LooksRepeatWhileTheFastestIsSlowerThanItWas) {
  seconds_ = {{"a", 1}, {"b", 0.9}, {"slow", 9}};
  std::vector<Measurement> first = {valid("a", 1)};
  look(first, 1.1);
  std::vector<Measurement> second = {valid("b", 1.2), valid("slow", 9)};
  second[1].samples = {9};
  slow_for_ = 2;  // the fastest and the candidate
  look(second, 1.1);
  EXPECT_THAT(timed_, ElementsAre("a", "b", "slow", "a", "b"));
  EXPECT_EQ(second[0].median, 0.9);
  slow_for_ = 1000;
  std::vector<Measurement> third = {valid("a", 1)};
  look(third, 0.9);
  EXPECT_THAT(timed_, ElementsAre("b", "a", "b", "a", "b", "a"));  // no more than three
  // The machine stays slow: that is usual now.
  look(third, 0.9);
  EXPECT_THAT(timed_, ElementsAre("b", "a"));
  // Another workload has no fastest kernel yet.
  look(third, 0.9, "other");
  EXPECT_THAT(timed_, ElementsAre("a"));
}

TEST_F(SecondLookTest, NothingRunsWhereNothingMayWin) {
  seconds_ = {{"a", 1}, {"slow", 9}};
  std::vector<Measurement> first = {valid("a", 1)}, second = {valid("slow", 9), valid("a", 0.5)};
  look(first, 1.1);
  second[1].verdict = TrialVerdict::Wrong;
  look(second, 1);
  EXPECT_THAT(timed_, IsEmpty());
}

// It may prove wrong yet.
TEST_F(SecondLookTest, AKernelThatWasNotCheckedInFullIsNoClock) {
  seconds_ = {{"a", 1}, {"b", 1}};
  std::vector<Measurement> first = {valid("a", 1)}, second = {valid("b", 1)};
  first[0].in_full = false;
  look(first, 1.1);
  look(second, 1.1);
  EXPECT_THAT(timed_, ElementsAre("b"));
}

TEST_F(SecondLookTest, AFailureLeavesTheFirstTiming) {
  std::vector<Measurement> batch = {valid("a", 1)};
  look_.look("w", batch, 1, [](const Measurement&) { return std::vector<double>{}; });
  EXPECT_EQ(batch[0].median, 1.1);
  EXPECT_EQ(batch[0].samples.size(), 3u);
}

}  // namespace
}  // namespace tilewright
