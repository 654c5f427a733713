// What ends measuring early, and what slow kernels cost. Workers are real, times are not asserted.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "ir/ops/spec.h"
#include "tests/cli/support.h"
#include "tuner/measurer.h"

namespace tilewright {
namespace {

using cli::Json;
using cli::Ran;
using ShortBudget = cli::Cli;

class Limits : public testing::Test {
 protected:
  std::vector<Measurement> measure(const MeasureOptions& options, const MeasureLimits& limits) {
    CandidateMaker maker(workload_, target_, 1);
    std::vector<Candidate> batch = {maker.make_default()};
    batch.push_back(*maker.make(cpu_sketches()[0], Trial::first()));
    Measurer measurer({TILEWRIGHT_BINARY_DIR "/tune-cli", "worker"}, target_, options);
    std::vector<Measurement> results = measurer.measure(workload_, batch, limits, 0);
    if (results[1].verdict == TrialVerdict::Valid) {
      medians_ = measurer.compare(workload_, results, limits);
    }
    return results;
  }

  Workload workload_ = make_workload(parse_spec("matmul:m=24,n=32,k=16"));
  Target target_ = Target::parse("native");
  std::atomic<bool> cancelled_{false};
  std::vector<double> medians_;
};

TEST_F(Limits, NothingIsTakenUpBeyondTheDeadline) {
  for (const Measurement& m : measure({}, {cancelled_, steady_seconds()})) {
    EXPECT_EQ(m.verdict, TrialVerdict::Illegal);
    EXPECT_EQ(m.reason, "") << "no fact about the candidate, not to be recorded";
  }
}

TEST_F(Limits, TheDefaultHasALongerTimeoutOfItsOwn) {
  MeasureOptions options;
  options.timeout_seconds = 1e-3;  // less than any measurement takes
  std::vector<Measurement> results = measure(options, {cancelled_});
  EXPECT_EQ(results[0].verdict, TrialVerdict::Valid) << results[0].reason;
  EXPECT_GT(results[0].median, 0);
  EXPECT_EQ(results[1].verdict, TrialVerdict::Timeout);
}

TEST_F(Limits, WinnersAreComparedOnceHoweverLate) {
  MeasureOptions options;
  std::vector<Measurement> results = measure(options, {cancelled_});
  ASSERT_EQ(medians_.size(), 2u);
  Measurer late({TILEWRIGHT_BINARY_DIR "/tune-cli", "worker"}, target_, options);
  for (double median : late.compare(workload_, results, {cancelled_, steady_seconds()})) {
    EXPECT_GT(median, 0);
  }
  cancelled_ = true;
  EXPECT_THAT(late.compare(workload_, results, {cancelled_}), testing::ElementsAre(0, 0));
}

TEST_F(Limits, ConfirmingSlowKernelsIsExpectedToTakeTheirRunsOnly) {
  // Five rounds; a kernel slower than half a second runs once in each, others four times or more.
  EXPECT_NEAR(Measurer::compare_seconds({2.0}), 5 * 2.0, 0.1);
  EXPECT_NEAR(Measurer::compare_seconds({0.2}), 5 * 4 * 0.2, 0.1);
  EXPECT_LT(Measurer::compare_seconds({1e-6, 1e-6}), 0.25);
}

// Proposing takes longer than each one's share: programs are verified at every step.
TEST_F(ShortBudget, OverManySpecsEndsWithSomethingTried) {
  std::string specs;
  for (int i = 0; i < 12; ++i) {
    specs += fmt::format(" conv2d:n=1,h=28,w=28,ci={0},co={0},kernel=3,pad=1", 64 + 16 * i);
  }
  const Ran ran = run("tune --json --time 8s --threads 1" + specs, "TILEWRIGHT_VERIFY=1");
  Json trials = Json::array();
  for (const Json& r : ran.json()["results"]) trials.push_back(r["trials"]);
  EXPECT_EQ(trials.size(), 12u);
  EXPECT_GT(trials[0], 0) << trials;
}

}  // namespace
}  // namespace tilewright
