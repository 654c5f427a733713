#include "runtime/worker/jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "runtime/worker/worker_pool.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

using test::error_of;
using testing::HasSubstr;

constexpr int64_t kJobsCount = 300;

// The whole way through a worker process: C[i] = 2 * A[i] of tests/runtime/worker/fault_worker_main.cc.
class Jobs : public testing::Test {
 protected:
  Jobs() : pool_({.command = {TILEWRIGHT_BINARY_DIR "/fault_worker"}}, 1) {}

  JobResult run(const std::string& type, const std::string& payload,
                double timeout = test::kPatience) {
    pool_.submit(type, payload, timeout);
    return pool_.wait(test::kPatience).at(0).result;
  }

  BuildResult build(const std::string& body) {
    BuildJob job;
    job.source = test::unary_kernel(body, kJobsCount);
    JobResult result = run("build", to_json(job));
    EXPECT_EQ(result.status, JobStatus::Done) << result.message;
    return build_result_from_json(result.result);
  }

  MeasureJob measure_job(const std::string& body) {
    BuildResult built = build(body);
    EXPECT_EQ(built.error, "");
    MeasureJob job;
    job.object_path = built.object_path;
    job.object = built.object;
    job.description = test::unary_kernel(body, kJobsCount).description;
    job.workload = std::to_string(kJobsCount);
    job.seed = 11;
    job.timing.max_seconds = 0.01;
    job.timing.min_seconds = 0;
    return job;
  }

  MeasureResult measure(const MeasureJob& job, double timeout = test::kPatience) {
    JobResult result = run("measure", to_json(job), timeout);
    if (result.status != JobStatus::Done) return failed_measurement(result);
    return measure_result_from_json(result.result);
  }

  MeasureResult measure_body(const std::string& body) { return measure(measure_job(body)); }

  WorkerPool pool_;
};

const char* const kJobsRight = "for (int64_t i = 0; i < n; ++i) c[i] = 2 * a[i];";

TEST_F(Jobs, RightKernelIsCheckedAndTimed) {
  MeasureResult result = measure_body(kJobsRight);
  EXPECT_EQ(result.verdict, Verdict::Ok) << result.message;
  EXPECT_GE(result.compared, 80);
  EXPECT_FALSE(result.timing.samples.empty());
  EXPECT_GT(result.timing.median, 0);
  EXPECT_EQ(result.max_rel_error, 0);
  EXPECT_GT(result.check_seconds, 0);
  EXPECT_GT(result.timing_seconds, 0);
}

TEST_F(Jobs, TheCheckedRunOfASlowKernelIsItsMeasurement) {
  MeasureJob job = measure_job(kJobsRight);
  job.timing.lone_run_seconds = 0;  // any run is slow
  MeasureResult result = measure(job);
  EXPECT_EQ(result.verdict, Verdict::Ok) << result.message;
  EXPECT_GE(result.compared, 80);
  EXPECT_EQ(result.timing.samples.size(), 1u);
  EXPECT_GT(result.timing.median, 0);
}

TEST_F(Jobs, CheckAndTimeCanBeHadAlone) {
  MeasureJob job = measure_job(kJobsRight);
  job.time = false;
  EXPECT_TRUE(measure(job).timing.samples.empty());
  job.time = true;
  job.check = false;
  MeasureResult timed = measure(job);
  EXPECT_EQ(timed.compared, 0);
  EXPECT_EQ(timed.check_seconds, 0);
  EXPECT_FALSE(timed.timing.samples.empty());
}

TEST_F(Jobs, TimesAtFurtherSizesAndComparesRows) {
  MeasureJob job = measure_job(kJobsRight);
  EXPECT_TRUE(measure(job).at_points.empty());
  job.time = false;
  job.points.resize(2);  // the workload's only size, twice
  job.points[1].cutoff_seconds = 1e-9;
  job.point_timing = job.timing;
  MeasureResult result = measure(job);
  ASSERT_EQ(result.at_points.size(), 2u);
  EXPECT_GT(result.at_points[0], 0);
  EXPECT_GT(result.at_points[1], 0);
  EXPECT_TRUE(result.timing.samples.empty());
  EXPECT_EQ(result.rows_identity, "") << "nobody asked";
  job.compare_rows = true;
  const std::string rows = measure(job).rows_identity;
  EXPECT_EQ(rows.size(), 16u);
  EXPECT_EQ(measure(job).rows_identity, rows);
  job.seed = 12;
  EXPECT_NE(measure(job).rows_identity, rows);
}

TEST_F(Jobs, CompileErrorIsAResult) {
  BuildResult result = build("this is no C");
  EXPECT_THAT(result.error, HasSubstr("exit code 1"));
  EXPECT_EQ(result.object_path + result.object, "");
}

TEST_F(Jobs, ObjectTravelsWhereThereIsNoCache) {
  test::ScopedEnv off("TILEWRIGHT_CACHE", "off");
  MeasureJob job = measure_job(kJobsRight);
  EXPECT_EQ(job.object_path, "");
  EXPECT_FALSE(job.object.empty());
  EXPECT_EQ(measure(job).verdict, Verdict::Ok);
}

TEST_F(Jobs, WrongKernelIsWrong) {
  MeasureResult result =
      measure_body("for (int64_t i = 0; i < n; ++i) c[i] = a[i] * (i == 299 ? 3 : 2);");
  EXPECT_EQ(result.verdict, Verdict::Wrong);
  EXPECT_EQ(result.wrong_index, kJobsCount - 1);
  EXPECT_THAT(result.message, HasSubstr("C[299] is "));
  EXPECT_EQ(result.compared, kJobsCount) << "every element";
  EXPECT_TRUE(result.timing.samples.empty());
}

TEST_F(Jobs, WritePastTheEndIsOutOfBoundsAndTheNextIsSound) {
  MeasureResult result =
      measure_body("for (int64_t i = 0; i < n + 4; ++i) c[i] = i < n ? 2 * a[i] : 1;");
  EXPECT_EQ(result.verdict, Verdict::OutOfBounds);
  EXPECT_THAT(result.message, HasSubstr("0 bytes past the end of 'C' (1200 bytes)"));
  EXPECT_EQ(measure_body(kJobsRight).verdict, Verdict::Ok);
}

// Accesses beyond the few bytes that alignment leaves are faults, which say where.
TEST_F(Jobs, AccessesBeyondOperandsAreNamed) {
  const std::string right = kJobsRight;
  const std::pair<const char*, const char*> attacks[] = {
      {"c[n + 1024] = 1;", "write 4096 bytes past the end of 'C'"},
      {"c[1 << 18] = 1;", "past the end of 'C'"},
      {"volatile float t = a[n + 9];", "read 36 bytes past the end of 'A' (1200 bytes)"},
      {"a[3] = 1;", "write to byte 12 of 'A', which is read-only"},
  };
  for (const auto& [attack, message] : attacks) {
    MeasureResult result = measure_body(right + attack);
    EXPECT_EQ(result.verdict, Verdict::OutOfBounds) << attack << " " << result.message;
    EXPECT_THAT(result.message, HasSubstr(message));
  }
  EXPECT_EQ(measure_body(kJobsRight).verdict, Verdict::Ok);
}

// What a kernel keeps from one call to the next is not its to use.
TEST_F(Jobs, StateBetweenCallsIsFound) {
  const std::string loop = "for (int64_t i = 0; i < n; ++i) ";
  const std::string attacks[] = {
      "static int calls; if (++calls > 4) return 0; " + loop + "c[i] = 2 * a[i];",
      "static float kept[300]; static int calls; if (++calls < 4) " + loop +
          "kept[i] = 2 * a[i]; " + loop + "c[i] = kept[i];",
      "static void* seen; static float kept[300]; if (seen != a) { seen = a; " + loop +
          "kept[i] = 2 * a[i]; } " + loop + "c[i] = kept[i];",
      loop + "c[i] = (i > 7 ? c[i] - c[i] : 0) + 2 * a[i];",
  };
  for (const std::string& attack : attacks) {
    MeasureResult result = measure_body(attack);
    EXPECT_NE(result.verdict, Verdict::Ok) << attack;
    EXPECT_TRUE(result.timing.samples.empty());
  }
}

// Zeros, extremes and large values meet the kernel, too.
TEST_F(Jobs, OrdinaryValuesAreNotAll) {
  MeasureResult result =
      measure_body("for (int64_t i = 0; i < n; ++i) c[i] = a[i] > 1.5f ? 3 : 2 * a[i];");
  EXPECT_EQ(result.verdict, Verdict::Wrong);
  EXPECT_THAT(result.message, HasSubstr("on hard values"));
}

TEST_F(Jobs, KernelsTooSlowToBeKeptAreCheckedOnOrdinaryValuesAlone) {
  const char* const wrong = "for (int64_t i = 0; i < n; ++i) c[i] = a[i] > 1.5f ? 3 : 2 * a[i];";
  MeasureJob job = measure_job(wrong);
  job.keep_seconds = 1e-12;
  MeasureResult slow = measure(job);
  EXPECT_EQ(slow.verdict, Verdict::Ok) << slow.message;
  EXPECT_FALSE(slow.in_full);
  EXPECT_GT(slow.timing.median, 0);
  job.timing.lone_run_seconds = 0;  // the checked run is the measurement
  slow = measure(job);
  EXPECT_EQ(slow.timing.samples.size(), 1u);
  EXPECT_FALSE(slow.in_full);
  job.keep_seconds = 1e3;
  EXPECT_EQ(measure(job).verdict, Verdict::Wrong);
  job = measure_job(kJobsRight);
  EXPECT_TRUE(measure(job).in_full);
  job.check = false;
  EXPECT_FALSE(measure(job).in_full);
}

TEST_F(Jobs, KernelsAboveTheRoofAreLookedAtAgain) {
  MeasureJob job = measure_job(kJobsRight);
  job.roof_seconds = 1;  // nothing is so slow
  MeasureResult result = measure(job);
  EXPECT_EQ(result.verdict, Verdict::Ok) << result.message;
  EXPECT_THAT(result.note, HasSubstr("times the measured roof; 10 more calls"));
  job.roof_seconds = 1e-12;
  EXPECT_EQ(measure(job).note, "");
  // Waits where the output is not that of the call before.
  job = measure_job("if (c[0] != c[0]) for (volatile int w = 0; w < 1000000;) w = w + 1; " +
                    std::string(kJobsRight));
  job.roof_seconds = 1;
  result = measure(job);
  EXPECT_EQ(result.verdict, Verdict::Wrong) << result.note;
  EXPECT_THAT(result.message, HasSubstr("faster on operands that do not change"));
}

TEST_F(Jobs, CrashingKernelIsARuntimeFault) {
  MeasureResult result = measure_body("*(volatile int*)8 = 1;");
  EXPECT_EQ(result.verdict, Verdict::Runtime);
  EXPECT_THAT(result.message, HasSubstr("killed by SIGSEGV"));
  EXPECT_EQ(measure_body(kJobsRight).verdict, Verdict::Ok);
}

TEST_F(Jobs, HangingKernelIsATimeout) {
  MeasureResult result = measure(measure_job("for (;;) __asm__ volatile(\"\");"), 0.5);
  EXPECT_EQ(result.verdict, Verdict::Timeout);
  EXPECT_EQ(measure_body(kJobsRight).verdict, Verdict::Ok);
}

#if defined(__x86_64__)
TEST_F(Jobs, ExitingKernelIsARuntimeFault) {
  // exit_group(3), as no library function can do it for a kernel.
  MeasureResult result = measure_body(
      "__asm__ volatile(\"syscall\" : : \"a\"(231), \"D\"(3) : \"rcx\", \"r11\", \"memory\");");
  EXPECT_EQ(result.verdict, Verdict::Runtime);
  EXPECT_EQ(result.message, "exited with code 3 before it replied");
}
#endif

TEST_F(Jobs, AKernelThatTakesALibraryFunctionDoesNotLoad) {
  MeasureResult result = measure_body("extern void exit(int); exit(3);");
  EXPECT_EQ(result.verdict, Verdict::Runtime);
  EXPECT_THAT(result.message, HasSubstr("it takes 'exit' from other libraries"));
}

TEST_F(Jobs, MissingObjectIsARuntimeFault) {
  MeasureJob job = measure_job(kJobsRight);
  job.object_path = "/no/such/object";
  job.object.clear();
  MeasureResult result = measure(job);
  EXPECT_EQ(result.verdict, Verdict::Runtime);
  EXPECT_EQ(result.message, "no sound object at '/no/such/object'");
}

TEST_F(Jobs, AnotherWorkloadOrSeedIsPreparedAnew) {
  MeasureJob job = measure_job(kJobsRight);
  EXPECT_EQ(measure(job).verdict, Verdict::Ok);
  job.seed = 12;
  EXPECT_EQ(measure(job).verdict, Verdict::Ok);
  job.workload = "301";
  MeasureResult other = measure(job);
  EXPECT_EQ(other.verdict, Verdict::Runtime);
  EXPECT_THAT(other.message, HasSubstr("the workload's operand is f32[301]"));
}

TEST(JobsJson, MeasureJobSurvives) {
  MeasureJob job;
  job.object = std::string("\0\xff\x7f", 3);
  job.description = test::unary_kernel("", 4).description;
  job.workload = "{\"op\":\"x\"}";
  job.dims = {{"M", 3}};
  job.seed = ~uint64_t{0};
  job.threads = 2;
  job.timing.cache = CacheState::Cold;
  job.timing.cutoff_seconds = 0.25;
  job.spread = {.names = {"B", "bias"}, .bytes = 4096};
  MeasureJob back = measure_job_from_json(to_json(job));
  EXPECT_EQ(to_json(back), to_json(job));
  EXPECT_EQ(back.object, job.object);
  EXPECT_EQ(back.seed, job.seed);
  EXPECT_EQ(back.timing.cutoff_seconds, 0.25);
  EXPECT_EQ(back.spread.names, job.spread.names);
  EXPECT_EQ(back.spread.bytes, 4096);
  job.timing.cutoff_seconds = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isinf(measure_job_from_json(to_json(job)).timing.cutoff_seconds));
}

TEST(JobsJson, MeasureResultSurvives) {
  MeasureResult result;
  result.verdict = Verdict::OutOfBounds;
  result.message = "text \xff that is no UTF-8";
  result.timing.samples = {3, 1, 2};
  result.timing.repeats = 5;
  result.check_seconds = 0.25;
  result.timing_seconds = 0.5;
  MeasureResult back = measure_result_from_json(to_json(result));
  EXPECT_EQ(back.verdict, Verdict::OutOfBounds);
  EXPECT_EQ(back.timing.samples, result.timing.samples);
  EXPECT_EQ(back.timing.median, 2);
  EXPECT_EQ(back.check_seconds, 0.25);
  EXPECT_EQ(back.timing_seconds, 0.5);
}

TEST(JobsJson, SayWhatTheyCouldNotRead) {
  EXPECT_THAT(error_of<Error>([] { measure_job_from_json("{}"); }), HasSubstr("measure job: "));
  EXPECT_THAT(error_of<Error>([] { build_job_from_json("nonsense"); }), HasSubstr("build job: "));
  EXPECT_THAT(error_of<Error>([] { measure_result_from_json(R"({"verdict":"fine"})"); }),
              HasSubstr("unknown verdict 'fine'"));
}

}  // namespace
}  // namespace tilewright
