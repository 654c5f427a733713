#include "runtime/compile/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>

#include "base/files.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

TEST(Process, CarriesItsStreams) {
  ProcessResult r = run_process({"sh", "-c", "cat; echo oops >&2; exit 3"}, "hello", 10);
  EXPECT_TRUE(r.started);
  EXPECT_EQ(r.out, "hello");
  EXPECT_EQ(r.err, "oops\n");
  EXPECT_EQ(r.exit_code, 3);
  EXPECT_EQ(r.outcome(), "exit code 3");
  EXPECT_FALSE(r.ok());
}

// Whether a process runs: it is there and no zombie that nobody has waited for yet.
bool runs(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  return static_cast<bool>(stat >> number >> name >> state) && state != "Z" && state != "X";
}

TEST(Process, ATreeIsKilledBeyondItsGroup) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    // The second one stands in a session of its own, as a compiler does in a group of its own.
    execlp("sh", "sh", "-c", "setsid sleep 1000 & echo $!; wait", nullptr);
    _exit(127);
  }
  close(ends[1]);
  FILE* said = fdopen(ends[0], "r");
  int below = 0;
  ASSERT_EQ(fscanf(said, "%d", &below), 1);
  fclose(said);
  EXPECT_TRUE(runs(below));
  kill_tree(child);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  for (int tries = 0; tries < 10000 && runs(below); ++tries) poll(nullptr, 0, 1);
  EXPECT_FALSE(runs(below));
}

TEST(Process, LargeInputAndOutputDoNotBlock) {
  std::string large(3 << 20, 'x');
  ProcessResult r = run_process({"sh", "-c", "cat; cat /dev/null"}, large, 30);
  EXPECT_TRUE(r.ok());
  EXPECT_EQ(r.out, large);
}

TEST(Process, ChildThatDoesNotReadIsNoTrouble) {
  EXPECT_TRUE(run_process({"true"}, std::string(1 << 20, 'x'), 10).ok());
}

// A grandchild that lives on would keep the pipe open.
TEST(Process, TimeoutKillsTheWholeGroup) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ProcessResult r = run_process({"sh", "-c", "sleep 1000 & sleep 1000"}, "", 0.1);
  EXPECT_TRUE(r.timed_out);
  EXPECT_EQ(r.outcome(), "timed out");
  EXPECT_EQ(r.signal, SIGKILL);
  close(ends[1]);
  pollfd event{ends[0], POLLIN, 0};
  EXPECT_EQ(poll(&event, 1, 20000), 1);
  EXPECT_EQ(event.revents & POLLHUP, POLLHUP);
  close(ends[0]);
}

TEST(Process, SignalsHaveNames) {
  ProcessResult r = run_process({"sh", "-c", "kill -ABRT $$"}, "", 10);
  EXPECT_EQ(r.signal, SIGABRT);
  EXPECT_EQ(r.outcome(), "killed by SIGABRT (aborted)");
  EXPECT_EQ(signal_name(SIGSEGV), "SIGSEGV (segmentation fault)");
  EXPECT_EQ(signal_name(4000), "signal 4000");
}

TEST(Process, MissingProgramIsSaid) {
  ProcessResult r = run_process({"no-such-program"}, "", 10);
  EXPECT_FALSE(r.started);
  EXPECT_EQ(r.outcome(), "cannot run 'no-such-program': No such file or directory");
}

TEST(Files, AtomicWriteLeavesNothingBehindOnFailure) {
  test::TempDir dir;
  EXPECT_TRUE(write_file_atomic(dir.path("a"), "one"));
  EXPECT_TRUE(write_file_atomic(dir.path("a"), "two"));
  EXPECT_EQ(read_file(dir.path("a")), "two");
  std::filesystem::create_directory(dir.path("d"));
  std::filesystem::create_directory(dir.path("d/inside"));
  EXPECT_FALSE(write_file_atomic(dir.path("d"), "three"));  // a directory cannot be replaced
  EXPECT_FALSE(write_file_atomic(dir.path("none/b"), "four"));
  int entries = 0;
  for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator(dir.path())) ++entries;
  EXPECT_EQ(entries, 2);
}

TEST(Files, CacheDirectoryFollowsTheEnvironment) {
  test::TempDir dir;
  test::ScopedEnv xdg("XDG_CACHE_HOME", dir.path("xdg"));
  test::ScopedEnv own("TILEWRIGHT_CACHE", std::nullopt);
  EXPECT_EQ(cache_directory(), dir.path("xdg/tilewright"));
  test::ScopedEnv named("TILEWRIGHT_CACHE", dir.path("mine"));
  EXPECT_EQ(cache_directory(), dir.path("mine"));
  EXPECT_TRUE(std::filesystem::is_directory(dir.path("mine")));
  test::ScopedEnv off("TILEWRIGHT_CACHE", "off");
  EXPECT_EQ(cache_directory(), std::nullopt);
}

TEST(Files, UnreadableFilesAreNothing) {
  test::TempDir dir;
  EXPECT_EQ(read_file(dir.path("missing")), std::nullopt);
  EXPECT_EQ(read_file(dir.path()), std::nullopt);
}

}  // namespace
}  // namespace tilewright
