// Candidates that a slow minute would have cost, on times that the tests make up.
#include "tuner/measure/second_look.h"

#include <gmock/gmock.h>

#include <map>

namespace tilewright {
namespace {

using testing::ElementsAre;

Measurement valid(const std::string& name, double seconds) {
  Measurement m;
  m.verdict = TrialVerdict::Valid;
  m.object = name;
  m.samples = {1.1 * seconds, seconds, 1.2 * seconds};
  m.median = 1.1 * seconds;
  return m;
}

class SecondLookTest : public testing::Test {
 protected:
  // Looks at a batch; kernels then take `seconds_` times `slowness_`, which lasts for so many of them.
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

TEST_F(SecondLookTest, TheBetterTimingIsKept) {
  seconds_ = {{"a", 1}, {"b", 0.9}, {"c", 2}};
  std::vector<Measurement> batch = {valid("a", 1), valid("b", 1.3), valid("c", 2)};
  slow_for_ = 1;  // "a" is timed in a slow moment now
  look(batch, 1.1);
  EXPECT_THAT(timed_, ElementsAre("a", "b"));  // "c" cannot win
  EXPECT_EQ(batch[0].median, 1.1);
  EXPECT_EQ(batch[1].median, 0.9);
  EXPECT_THAT(batch[1].samples, ElementsAre(0.9));
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
  seconds_ = {{"a", 1}, {"b", 0.9}};
  std::vector<Measurement> first = {valid("a", 1)};
  look(first, 1.1);
  std::vector<Measurement> second = {valid("b", 1.2)};
  slow_for_ = 2;  // the fastest and the candidate
  look(second, 1.1);
  EXPECT_THAT(timed_, ElementsAre("a", "b", "a", "b"));
  EXPECT_EQ(second[0].median, 0.9);
  slow_for_ = 1000;
  std::vector<Measurement> third = {valid("a", 1)};
  look(third, 0.9);
  EXPECT_THAT(timed_, ElementsAre("b", "a", "b", "a", "b", "a"));  // no more than three
  // Another workload has no fastest kernel yet.
  look(third, 0.9, "other");
  EXPECT_THAT(timed_, ElementsAre("a"));
}

TEST_F(SecondLookTest, WrongAndFailingKernelsStayAsTheyAre) {
  std::vector<Measurement> batch = {valid("a", 1), valid("b", 1)};
  batch[0].verdict = TrialVerdict::Wrong;
  look_.look("w", batch, 1, [](const Measurement&) { return std::vector<double>{}; });
  EXPECT_EQ(batch[1].median, 1.1);
  EXPECT_EQ(batch[0].verdict, TrialVerdict::Wrong);
}

}  // namespace
}  // namespace tilewright
