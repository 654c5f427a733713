// Signals at awkward moments: nothing that was finished is lost, and a second one does not wait.
#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>

#include <thread>

#include "database/store.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using database::Mode;
using database::RunState;
using database::Store;

// A tuning run in the background whose compiler is a script: it leaves the file "compiling" and
// then does `body`.
class Interrupt : public Cli {
 protected:
  void TearDown() override {
    if (pid_ > 0) kill(pid_, SIGKILL);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
    // A compiler that was started as the run ended may still leave its file while the folder goes.
    EXPECT_TRUE(eventually([&] {
      std::error_code error;
      fs::remove_all(dir_, error);
      return !error;
    }));
  }

  void start(const std::string& body) {
    fs::path compiler = dir_ / "slow-cc";
    std::ofstream(compiler) << "#!/bin/sh\nif [ \"$1\" = --version ]; then exec cc --version; fi\n"
                            << "echo $$ >'" << (dir_ / "compiling").string() << "'\n"
                            << body << "\n";
    chmod(compiler.c_str(), 0755);
    pid_ = fork();
    if (pid_ != 0) return;
    setenv("TILEWRIGHT_CC", compiler.c_str(), 1);
    setenv("TILEWRIGHT_CACHE", "off", 1);
    int null = open("/dev/null", O_RDWR);
    for (int fd : {0, 1}) dup2(null, fd);
    dup2(open((dir_ / "said").c_str(), O_WRONLY | O_CREAT, 0600), 2);
    if (chdir(dir_.c_str()) != 0) _exit(126);
    execl(TILEWRIGHT_BINARY_DIR "/tune-cli", "tune-cli", "tune", "--trials", "100000", "--batch",
          "2", "--threads", "1", kSmall, nullptr);
    _exit(127);
  }

  // Waits for something that happens soon.
  template <class Condition>
  static bool eventually(Condition&& condition) {
    for (int i = 0; i < 6000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  // Waits for a compiler to be started; its process is in compiler_ then.
  bool compiling() {
    std::string line;
    bool started = eventually([&] { return (line = read(dir_ / "compiling")).ends_with("\n"); });
    if (started) compiler_ = std::stoi(line);
    return started;
  }
  // Neither there nor dead and waiting for a parent to ask how.
  static bool is_gone(pid_t pid) { return read(fmt::format("/proc/{}/cmdline", pid)).empty(); }

  // The exit code of the run; 128 and the signal when one killed it.
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  Store store() const { return Store::open(dir_ / "tilewright.db", Mode::ReadOnly); }

  pid_t pid_ = -1, compiler_ = -1;
};

TEST_F(Interrupt, DuringABuildItTakesTheCompilerAlong) {
  start("exec sleep 600");
  ASSERT_TRUE(compiling());
  kill(pid_, SIGINT);
  EXPECT_EQ(wait(), 130);
  EXPECT_THAT(
      read(dir_ / "said"),
      testing::HasSubstr("To go on:\n  tune-cli tune --trials 100000 --batch 2 --threads 1 " +
                         std::string(kSmall) + " --resume\n"));
  EXPECT_TRUE(eventually([&] { return is_gone(compiler_); })) << "the compiler goes on";
  EXPECT_EQ(store().records().records.size(), 0u) << "a build that was ended is no fact";
  EXPECT_EQ(store().runs().at(0).state, RunState::Interrupted);
  EXPECT_TRUE(store().check().ok());
}

class Ending : public Interrupt, public testing::WithParamInterface<int> {};

TEST_P(Ending, IsAsTidy) {
  start("exec cc \"$@\"");
  ASSERT_TRUE(compiling());
  ASSERT_TRUE(eventually([&] {
    return fs::exists(dir_ / "tilewright.db") && run("best --json --threads 1").code == 0 &&
           !store().records().records.empty();
  }));
  kill(pid_, GetParam());
  EXPECT_EQ(wait(), 130);
  EXPECT_EQ(store().runs().at(0).state, RunState::Interrupted);
  EXPECT_TRUE(store().check().ok());
  EXPECT_EQ(run("replay --require --threads 1 " + std::string(kSmall)).code, 0);
}

INSTANTIATE_TEST_SUITE_P(Signals, Ending, testing::Values(SIGINT, SIGTERM, SIGHUP));

TEST_F(Interrupt, UnderNohupALostConnectionDoesNotMatter) {
  Ran ran = shell("trap '' HUP; " TILEWRIGHT_BINARY_DIR
                  "/tune-cli tune --quiet --trials 24 --threads 1 " +
                  std::string(kSmall) + " & sleep 0.5; kill -HUP $!; wait $!");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(store().runs().at(0).state, RunState::Finished);
}

TEST_F(Interrupt, TheSecondDoesNotWait) {
  start("exec sleep 5");
  ASSERT_TRUE(compiling());
  // Both signals reach it at one time, before it can tidy up.
  kill(pid_, SIGSTOP);
  kill(pid_, SIGINT);
  kill(pid_, SIGTERM);
  kill(pid_, SIGCONT);
  EXPECT_EQ(wait(), 130);
  EXPECT_EQ(store().runs().at(0).state, RunState::Running) << "it had time to tidy up";
  EXPECT_TRUE(store().check().ok());
}

}  // namespace
}  // namespace tilewright::cli
