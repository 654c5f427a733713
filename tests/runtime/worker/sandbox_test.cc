// Kernels that do what no kernel has to: they are stopped, and the verdict names the call.
#include "runtime/worker/sandbox.h"
#include "sandbox/seccomp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>

#include "base/files.h"
#include "runtime/compile/compile.h"
#include "runtime/machine/timer.h"
#include "runtime/worker/jobs.h"
#include "runtime/worker/worker_pool.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

constexpr int64_t kSandboxCount = 300;
const std::string kSandboxRight = "for (int64_t i = 0; i < n; ++i) c[i] = 2 * a[i];";

// A kernel's way to the system that needs no symbol.
const std::string kCall = R"(
static long call(long number, long a, long b, long c, long d) {
  long result;
  register long r10 __asm__("r10") = d;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
  return result;
}
)";

class Sandbox : public testing::Test {
 protected:
  Sandbox() : pool_({.command = {TILEWRIGHT_BINARY_DIR "/fault_worker"}, .confined = true}, 1) {}

  void SetUp() override {
#if !defined(__x86_64__)
    GTEST_SKIP() << "the kernels call the system as x86-64 does";
#endif
    std::string problem = confinement_problem();
    if (!problem.empty()) GTEST_SKIP() << problem;
  }

  MeasureResult measure(const std::string& body, int threads = 1) {
    KernelSource source = test::unary_kernel(body, kSandboxCount);
    source.code.insert(test::kPrelude.size(), kCall);
    MeasureJob job;
    job.object = compile(source).object;
    job.description = source.description;
    job.workload = std::to_string(kSandboxCount);
    job.threads = threads;
    job.timing.max_seconds = 0.01;
    job.timing.min_seconds = 0;
    pool_.submit("measure", to_json(job), test::kPatience);
    JobResult result = pool_.wait(test::kPatience).at(0).result;
    if (result.status != JobStatus::Done) return failed_measurement(result);
    return measure_result_from_json(result.result);
  }

  void expect_stopped(const std::string& body, const std::string& call) {
    MeasureResult result = measure(body + kSandboxRight);
    EXPECT_EQ(result.verdict, Verdict::Runtime) << call;
    EXPECT_EQ(result.message, "the kernel called " + call + ", which kernels may not");
    EXPECT_TRUE(result.timing.samples.empty());
  }

  WorkerPool pool_;
  test::TempDir dir_;
};

TEST_F(Sandbox, KernelsComputeAsElsewhere) {
  EXPECT_EQ(measure(kSandboxRight).verdict, Verdict::Ok);
  EXPECT_EQ(measure(kSandboxRight, 3).verdict, Verdict::Ok) << "with threads of its own";
  EXPECT_EQ(measure("call(39, 0, 0, 0, 0);" + kSandboxRight).verdict, Verdict::Ok) << "getpid";
}

TEST_F(Sandbox, AProgramIsNotStarted) {
  const std::string made = dir_.path("made");
  expect_stopped("const char* argv[] = {\"/usr/bin/touch\", \"" + made +
                     "\", 0}; call(59, (long)argv[0], (long)argv, 0, 0);",
                 "execve");
  EXPECT_FALSE(std::filesystem::exists(made));
  expect_stopped("call(322, -1, (long)\"/bin/true\", 0, 0);", "execveat");
}

TEST_F(Sandbox, ProcessesAreNotForked) {
  expect_stopped("call(57, 0, 0, 0, 0);", "fork");
  expect_stopped("call(58, 0, 0, 0, 0);", "vfork");
  expect_stopped("call(56, 17, 0, 0, 0);", "clone");
  MeasureResult result = measure("if (call(435, 0, 0, 0, 0) == -38) {" + kSandboxRight + "}");
  EXPECT_EQ(result.verdict, Verdict::Ok) << "clone3 is absent: " << result.message;
}

TEST_F(Sandbox, FilesAreReadAndNotWritten) {
  const std::string made = dir_.path("made"), quoted = "\"" + made + "\"";
  expect_stopped("call(257, -100, (long)" + quoted + ", 01101, 0600);", "openat");
  expect_stopped("call(2, (long)" + quoted + ", 0102, 0600, 0);", "open");
  expect_stopped("call(85, (long)" + quoted + ", 0600, 0, 0);", "creat");
  EXPECT_FALSE(std::filesystem::exists(made));
  ASSERT_TRUE(write_file_atomic(made, "kept"));
  expect_stopped("call(257, -100, (long)" + quoted + ", 01000, 0);", "openat");
  expect_stopped("call(87, (long)" + quoted + ", 0, 0, 0);", "unlink");
  expect_stopped("call(82, (long)" + quoted + ", (long)" + quoted + ", 0, 0);", "rename");
  expect_stopped("call(90, (long)" + quoted + ", 0777, 0, 0);", "chmod");
  expect_stopped("call(76, (long)" + quoted + ", 0, 0, 0);", "truncate");
  EXPECT_EQ(read_file(made), "kept");
  MeasureResult read =
      measure("long f = call(257, -100, (long)" + quoted +
              ", 0, 0); if (f < 0) return 1; call(3, f, 0, 0, 0);" + kSandboxRight);
  EXPECT_EQ(read.verdict, Verdict::Ok) << read.message;
}

TEST_F(Sandbox, OtherProcessesAndTheNetworkAreOutOfReach) {
  expect_stopped("call(62, call(110, 0, 0, 0, 0), 9, 0, 0);", "kill");
  expect_stopped("call(200, 1, 9, 0, 0);", "tkill");
  expect_stopped("call(41, 2, 1, 0, 0);", "socket");
  expect_stopped("call(101, 16, 1, 0, 0);", "ptrace");
  expect_stopped("call(310, call(110, 0, 0, 0, 0), 0, 0, 0);", "process_vm_readv");
  expect_stopped("call(321, 0, 0, 0, 0);", "bpf");
  expect_stopped("call(425, 8, 0, 0, 0);", "io_uring_setup");
  expect_stopped("call(250, 0, 0, 0, 0);", "keyctl");
  expect_stopped("call(165, 0, 0, 0, 0);", "mount");
  expect_stopped("call(72, 0, 8, 1, 0);", "fcntl");  // F_SETOWN: signals for others
  expect_stopped("call(157, 1, 0, 0, 0);", "prctl");
  EXPECT_EQ(measure(kSandboxRight).verdict, Verdict::Ok) << "and this process lives";
}

TEST_F(Sandbox, CallsOfTheOtherInterfaceEndItToo) {
  MeasureResult result =
      measure("int r; __asm__ volatile(\"int $0x80\" : \"=a\"(r) : \"a\"(20) : \"memory\");" +
              kSandboxRight);
  EXPECT_EQ(result.verdict, Verdict::Runtime);
  EXPECT_THAT(result.message, HasSubstr("system call"));
}

// A kernel may take the handler away, and is ended all the same.
TEST_F(Sandbox, IgnoringTheSignalDoesNotHelp) {
  MeasureResult result = measure(
      "struct { void* h; unsigned long f; void* r; unsigned long m; } ignore = {(void*)1, 0, 0, 0};"
      "call(13, 31, (long)&ignore, 0, 8); call(57, 0, 0, 0, 0);" +
      kSandboxRight);
  EXPECT_EQ(result.verdict, Verdict::Runtime) << result.message;
}

TEST(SandboxNotes, TellWhichCallItWas) {
  EXPECT_EQ(refused_call("nothing of note\n"), std::nullopt);
  EXPECT_EQ(refused_call("x\ntilewright: refused system call fork\n"), "fork");
  EXPECT_EQ(refused_call("tilewright: refused system call a\ntilewright: refused system call b"),
            "b");
}

TEST(SandboxNotes, TheKnobSwitchesItOff) {
  test::ScopedEnv off("TILEWRIGHT_SANDBOX", "off");
  EXPECT_EQ(confinement_problem(), "TILEWRIGHT_SANDBOX is off");
}

// How long a worker takes longer to start: a figure in the test's record, no bound.
TEST(SandboxNotes, InstallingTheFilter) {
  if (!confinement_problem().empty()) GTEST_SKIP() << confinement_problem();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    double begin = steady_seconds();
    bool confined = confine_process().empty();
    int micros = static_cast<int>((steady_seconds() - begin) * 1e6);
    [[maybe_unused]] ssize_t put = write(ends[1], &micros, sizeof micros);
    _exit(confined ? 0 : 1);
  }
  int status = 0, micros = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ASSERT_EQ(read(ends[0], &micros, sizeof micros), static_cast<ssize_t>(sizeof micros));
  RecordProperty("microseconds", micros);
  std::printf("the filter was installed in %d us\n", micros);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace tilewright
