#include "runtime/worker/worker_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <set>

#include "runtime/worker/jobs.h"
#include "runtime/worker/worker.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

// Long enough for a loaded machine; a job that must time out gets less.

WorkerOptions fault_worker() {
  WorkerOptions options;
  options.command = {TILEWRIGHT_BINARY_DIR "/fault_worker"};
  return options;
}

JobResult run(WorkerPool& pool, const std::string& type, const std::string& payload = "null",
              double timeout = test::kPatience) {
  int64_t job = pool.submit(type, payload, timeout);
  std::vector<Completion> done = pool.wait(test::kPatience);
  EXPECT_EQ(done.size(), 1u);
  if (done.size() != 1) return {};
  EXPECT_EQ(done[0].job, job);
  return done[0].result;
}

TEST(Worker, ServesJobsInOneProcess) {
  WorkerPool pool(fault_worker(), 1);
  JobResult echo = run(pool, "echo", R"({"a":[1,2.5,"x"]})");
  EXPECT_EQ(echo.status, JobStatus::Done);
  EXPECT_EQ(echo.result, R"({"a":[1,2.5,"x"]})");
  EXPECT_EQ(run(pool, "pid").result, run(pool, "pid").result);
}

TEST(Worker, LargePayloadsPassInBothDirections) {
  WorkerPool pool(fault_worker(), 1);
  std::string text = "\"" + std::string(5 << 20, 'x') + "\"";
  EXPECT_EQ(run(pool, "echo", text).result, text);
}

TEST(Worker, ErrorsComeBackAndTheProcessLives) {
  WorkerPool pool(fault_worker(), 1);
  std::string pid = run(pool, "pid").result;
  JobResult error = run(pool, "error");
  EXPECT_EQ(error.status, JobStatus::Failed);
  EXPECT_EQ(error.message, "a sad story");
  EXPECT_EQ(run(pool, "bug").message, "a bug");
  EXPECT_EQ(run(pool, "toolchain").status, JobStatus::NoToolchain);
  JobResult unknown = run(pool, "dance");
  EXPECT_EQ(unknown.status, JobStatus::Failed);
  EXPECT_THAT(unknown.message, HasSubstr("unknown job 'dance'; known: bug, build"));
  EXPECT_EQ(run(pool, "pid").result, pid);
}

struct Fault {
  const char* job;
  JobStatus status;
  const char* message;
  Verdict verdict;
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.job; }

class WorkerFault : public testing::TestWithParam<Fault> {};

// After each fault the next job is served, by another process.
TEST_P(WorkerFault, IsNamedAndOvercome) {
  WorkerOptions options = fault_worker();
  WorkerPool pool(options, 1);
  std::string before = run(pool, "pid").result;
  bool hangs = GetParam().status == JobStatus::TimedOut;
  JobResult result = run(pool, GetParam().job, "null", hangs ? 0.3 : test::kPatience);
  EXPECT_EQ(result.status, GetParam().status) << name_of(result.status) << ": " << result.message;
  EXPECT_THAT(result.message, HasSubstr(GetParam().message));
  MeasureResult measured = failed_measurement(result);
  EXPECT_EQ(measured.verdict, GetParam().verdict);
  EXPECT_EQ(measured.message, result.message);
  JobResult after = run(pool, "pid");
  EXPECT_EQ(after.status, JobStatus::Done);
  EXPECT_NE(after.result, before);
}

INSTANTIATE_TEST_SUITE_P(
    Matrix, WorkerFault,
    testing::Values(Fault{"crash", JobStatus::Crashed, "killed by SIGSEGV (segmentation fault)",
                          Verdict::Runtime},
                    Fault{"killed", JobStatus::Crashed, "killed by SIGKILL", Verdict::Runtime},
                    Fault{"hang", JobStatus::TimedOut, "killed after 0.3 s", Verdict::Timeout},
                    Fault{"exit", JobStatus::Exited, "exited with code 3", Verdict::Runtime},
                    Fault{"garbage", JobStatus::Malformed, "no reply: \"this is not a reply",
                          Verdict::Runtime},
                    Fault{"half_reply", JobStatus::Malformed, "no reply: \"@\\x00\\x00\\x00{",
                          Verdict::Runtime}),
    [](const auto& test) { return std::string(test.param.job); });

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Worker, MemoryLimitIsAnAnswerNotADeath) {
  WorkerOptions options = fault_worker();
  options.memory_limit_bytes = 512 << 20;
  WorkerPool pool(options, 1);
  std::string before = run(pool, "pid").result;
  JobResult result = run(pool, "exhaust");
  EXPECT_EQ(result.status, JobStatus::OutOfMemory);
  EXPECT_EQ(result.message, "out of memory");
  EXPECT_EQ(failed_measurement(result).verdict, Verdict::Runtime);
  EXPECT_EQ(run(pool, "pid").result, before);
}
#endif

TEST(Worker, WhatKernelsPrintDoesNotDisturbReplies) {
  WorkerPool pool(fault_worker(), 1);
  JobResult result = run(pool, "chatter");
  EXPECT_EQ(result.result, "\"quiet\"");
  EXPECT_THAT(result.stderr_tail, HasSubstr("printed by a kernel"));
  EXPECT_THAT(result.stderr_tail, HasSubstr("complaint of a kernel"));
}

TEST(Worker, InterruptIsIgnored) {
  WorkerPool pool(fault_worker(), 1);
  EXPECT_EQ(run(pool, "interrupt").result, "\"still here\"");
}

TEST(Worker, RetiredProcessIsReplacedBeforeTheNextJob) {
  WorkerPool pool(fault_worker(), 1);
  JobResult last = run(pool, "retire");
  EXPECT_EQ(last.status, JobStatus::Done);
  JobResult next = run(pool, "pid");
  EXPECT_EQ(next.status, JobStatus::Done);
  EXPECT_NE(next.result, last.result);
}

TEST(Worker, DeathBetweenJobsCostsNoJob) {
  WorkerPool pool(fault_worker(), 1);
  pid_t pid = std::stoi(run(pool, "pid").result);
  kill(pid, SIGKILL);
  // Its end of the pipe closes when it is gone.
  while (kill(pid, 0) == 0) {
    std::string state = *read_file("/proc/" + std::to_string(pid) + "/stat");
    if (state.find(") Z") != std::string::npos) break;
  }
  JobResult next = run(pool, "pid");
  EXPECT_EQ(next.status, JobStatus::Done);
  EXPECT_NE(next.result, std::to_string(pid));
}

TEST(Worker, MissingProgramIsSaid) {
  WorkerOptions options;
  options.command = {"/no/such/worker"};
  WorkerPool pool(options, 1);
  JobResult result = run(pool, "echo");
  EXPECT_EQ(result.status, JobStatus::NotStarted);
  EXPECT_EQ(result.message, "cannot run '/no/such/worker': No such file or directory");
}

TEST(Worker, ProgramThatIsNoWorkerIsMalformed) {
  WorkerOptions options;
  options.command = {"sh", "-c", "echo hello; sleep 1000"};
  WorkerPool pool(options, 1);
  JobResult result = run(pool, "echo");
  EXPECT_EQ(result.status, JobStatus::Malformed);
  EXPECT_THAT(result.message, HasSubstr("hello\\x0a"));
}

TEST(Worker, WorkerEndsWithItsParentsPipe) {
  pid_t pid;
  {
    WorkerPool pool(fault_worker(), 1);
    pid = std::stoi(run(pool, "pid").result);
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST(WorkerPool, JobsRunBesideEachOtherAndAllComeBack) {
  WorkerPool pool(fault_worker(), 2);
  std::set<int64_t> jobs, back;
  for (int i = 0; i < 20; ++i) {
    jobs.insert(pool.submit(i % 5 == 4 ? "crash" : "echo", std::to_string(i), test::kPatience));
  }
  EXPECT_EQ(pool.pending(), 20u);
  EXPECT_EQ(pool.running(), 2u);
  while (pool.pending() > 0) {
    for (const Completion& c : pool.wait(test::kPatience)) {
      back.insert(c.job);
      bool crashes = (c.job - *jobs.begin()) % 5 == 4;
      EXPECT_EQ(c.result.status, crashes ? JobStatus::Crashed : JobStatus::Done);
    }
  }
  EXPECT_EQ(back, jobs);
  EXPECT_TRUE(pool.wait(0).empty());
}

TEST(WorkerPool, HangingWorkerDoesNotHoldUpTheOther) {
  WorkerPool pool(fault_worker(), 2);
  pool.submit("hang", "null", test::kPatience);
  int64_t quick = pool.submit("echo", "1", test::kPatience);
  std::vector<Completion> done = pool.wait(test::kPatience);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].job, quick);
  EXPECT_EQ(pool.pending(), 1u);
}

TEST(WorkerPool, CancelReportsEveryJob) {
  WorkerPool pool(fault_worker(), 1);
  int64_t first = pool.submit("hang", "null", test::kPatience);
  int64_t second = pool.submit("echo", "1", test::kPatience);
  pool.wait(0.05);
  std::vector<Completion> done = pool.cancel_all();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].job, first);
  EXPECT_EQ(done[1].job, second);
  for (const Completion& c : done) EXPECT_EQ(c.result.status, JobStatus::Cancelled);
  EXPECT_EQ(pool.pending(), 0u);
  EXPECT_EQ(run(pool, "echo", "5").result, "5");
}

TEST(Serve, SaysWhatIsWrongWithARequest) {
  EXPECT_THAT(serve({}, "["), HasSubstr("no JSON object"));
  EXPECT_THAT(serve({}, R"({"id":1,"type":"x"})"), HasSubstr("unknown job 'x'"));
}

}  // namespace
}  // namespace tilewright
