// What ends measuring early, and what slow kernels cost. Workers are real, times are not asserted.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "ir/ops/spec.h"
#include "tests/cli/support.h"
#include "tuner/measure/measurer.h"

namespace tilewright {
namespace {

using cli::Json;
using cli::Ran;
namespace fs = cli::fs;
using ShortBudget = cli::Cli;

class Limits : public testing::Test {
 protected:
  std::vector<Measurement> measure(const MeasureOptions& options, const MeasureLimits& limits) {
    CandidateMaker maker(workload_, target_, 1);
    std::vector<Candidate> batch = {maker.make_default()};
    batch.push_back(*maker.make(cpu_sketches()[0], Trial::first()));
    LocalMeasurer measurer({TILEWRIGHT_BINARY_DIR "/tune-cli", "job-worker"}, target_, options);
    std::vector<Measurement> results = measurer.measure(workload_, batch, limits, 0);
    if (results[1].verdict == TrialVerdict::Valid) {
      medians_ = measurer.compare(workload_, results, limits).medians;
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

TEST_F(Limits, OnlyCandidatesThatMayBeKeptAreCheckedInFull) {
  auto in_full = [&](const char* spec, double best_seconds) {
    workload_ = make_workload(parse_spec(spec));
    CandidateMaker maker(workload_, target_, 1);
    std::vector<Candidate> batch = {*maker.make(cpu_sketches()[0], Trial::first())};
    batch.push_back(maker.make_default());
    LocalMeasurer measurer({TILEWRIGHT_BINARY_DIR "/tune-cli", "job-worker"}, target_, {});
    std::vector<bool> found;
    for (const Measurement& m : measurer.measure(workload_, batch, {cancelled_}, best_seconds)) {
      EXPECT_EQ(m.verdict, TrialVerdict::Valid) << m.reason;
      found.push_back(m.in_full);
    }
    return found;
  };
  EXPECT_THAT(in_full("matmul:m=24,n=32,k=16", 0), testing::ElementsAre(true, true));
  EXPECT_THAT(in_full("matmul:m=24,n=32,k=16", 1e6), testing::ElementsAre(true, true));
  // Nothing is as fast; the default is kept whatever it takes.
  EXPECT_THAT(in_full("matmul:m=24,n=32,k=16", 1e-12), testing::ElementsAre(false, true));
  // A kernel for a range may be the fastest at another size.
  EXPECT_THAT(in_full("matmul:m=1..24,n=32,k=16", 1e-12), testing::ElementsAre(true, true));
}

TEST_F(Limits, WinnersAreComparedOnceHoweverLate) {
  MeasureOptions options;
  std::vector<Measurement> results = measure(options, {cancelled_});
  ASSERT_EQ(medians_.size(), 2u);
  LocalMeasurer late({TILEWRIGHT_BINARY_DIR "/tune-cli", "job-worker"}, target_, options);
  for (double median : late.compare(workload_, results, {cancelled_, steady_seconds()}).medians) {
    EXPECT_GT(median, 0);
  }
  cancelled_ = true;
  EXPECT_THAT(late.compare(workload_, results, {cancelled_}).medians, testing::ElementsAre(0, 0));
}

TEST_F(Limits, ConfirmingSlowKernelsIsExpectedToTakeTheirRunsOnly) {
  // Five rounds; a kernel slower than half a second runs once in each, others four times or more.
  EXPECT_NEAR(Measurer::compare_seconds({2.0}), 5 * 2.0, 0.1);
  EXPECT_NEAR(Measurer::compare_seconds({0.2}), 5 * 4 * 0.2, 0.1);
  EXPECT_LT(Measurer::compare_seconds({1e-6, 1e-6}), 0.25);
}

// A failure does not end the haste for a first kernel that works.
TEST_F(ShortBudget, AFirstRoundGoesOnUntilSomethingIsValid) {
  std::ofstream(dir_ / "failing-cc") << R"(#!/bin/sh
if [ "$1" != --version ] && mkdir "$TW_TEST_FAILED" 2>/dev/null; then exit 1; fi
exec cc "$@"
)";
  fs::permissions(dir_ / "failing-cc", fs::perms::owner_all);
  setenv("TILEWRIGHT_CACHE", "off", 1);
  setenv("TILEWRIGHT_CC", (dir_ / "failing-cc").c_str(), 1);
  setenv("TW_TEST_FAILED", (dir_ / "failed").c_str(), 1);
  const Workload workload = make_workload(parse_spec("matmul:m=24,n=32,k=16"));
  const Target target = Target::parse("native");
  CandidateMaker maker(workload, target, 1);
  std::vector<Candidate> batch;
  for (uint64_t seed = 0; batch.size() < 4; ++seed) {
    if (auto c = maker.make(cpu_sketches()[0], Trial::random(seed))) batch.push_back(std::move(*c));
  }
  MeasureOptions options;
  options.builders = 1;
  LocalMeasurer measurer({TILEWRIGHT_BINARY_DIR "/tune-cli", "job-worker"}, target, options);
  const std::atomic<bool> cancelled{false};
  const double now = steady_seconds();
  std::vector<TrialVerdict> measured;
  measurer.measure(workload, batch, {cancelled, now, true, now + 60}, 0,
                   [&](size_t, const Measurement& m) { measured.push_back(m.verdict); });
  unsetenv("TILEWRIGHT_CACHE");
  unsetenv("TILEWRIGHT_CC");
  unsetenv("TW_TEST_FAILED");
  EXPECT_THAT(measured, testing::ElementsAre(TrialVerdict::CompileError, TrialVerdict::Valid));
}

// Compilers that take longer than each workload's share of the time are not ended with it.
TEST_F(ShortBudget, OverManySpecsEndsWithSomethingTried) {
  std::ofstream(dir_ / "slow-cc")
      << "#!/bin/sh\nif [ \"$1\" != --version ]; then sleep 2; fi\nexec cc \"$@\"\n";
  fs::permissions(dir_ / "slow-cc", fs::perms::owner_all);
  std::string specs;
  for (int n = 8; n < 64; n += 16) specs += fmt::format(" matmul:m=8,n={},k=8", n);
  const Ran ran = run("tune --json --time 6s --threads 1" + specs,
                      "TILEWRIGHT_CACHE=off TILEWRIGHT_CC='" + (dir_ / "slow-cc").string() + "'");
  const Json results = ran.json()["results"];
  ASSERT_EQ(results.size(), 4u) << ran.err;
  EXPECT_GT(results[0]["trials"], 0) << ran.out;
}

}  // namespace
}  // namespace tilewright
