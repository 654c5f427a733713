#include "runtime/compile/private_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <utime.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/files.h"
#include "runtime/compile/compile.h"
#include "runtime/error.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

namespace fs = std::filesystem;
using test::ScopedEnv;
using test::TempDir;
using testing::HasSubstr;

class PrivateFolder : public testing::Test {
 protected:
  static size_t entries(const std::string& path) {
    return static_cast<size_t>(std::distance(fs::directory_iterator(path), {}));
  }
  // Older than what a sweep leaves alone.
  static void age(const std::string& path) {
    utimbuf times{1000, 1000};
    ASSERT_EQ(utime(path.c_str(), &times), 0);
  }
  // A folder as a killed process leaves it.
  std::string leftover(const std::string& name) {
    std::string path = dir_.path(name);
    EXPECT_EQ(mkdir(path.c_str(), 0700), 0);
    std::ofstream(path + "/0.so") << "machine code";
    age(path);
    return path;
  }
  TempDir dir_;
  ScopedEnv tmp_{"TMPDIR", dir_.path()};
};

TEST_F(PrivateFolder, IsOursAloneAndThePathsAreNew) {
  std::string folder = private_folder();
  struct stat status {};
  ASSERT_EQ(lstat(folder.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
  EXPECT_EQ(status.st_uid, geteuid());
  EXPECT_THAT(folder, HasSubstr(dir_.path() + "/tilewright-"));
  EXPECT_EQ(private_folder(), folder);
  std::set<std::string> paths = {private_path(".so"), private_path(".so"), private_path(".so")};
  EXPECT_EQ(paths.size(), 3u);
  EXPECT_THAT(*paths.begin(), testing::EndsWith(".so"));
}

TEST_F(PrivateFolder, ComesBackWhenItWasRemoved) {
  std::string folder = private_folder();
  fs::remove_all(folder);
  EXPECT_TRUE(fs::is_directory(private_folder()));
}

TEST_F(PrivateFolder, GoesWithTheProcess) {
  pid_t child = fork();
  if (child == 0) {
    private_folder();
    std::ofstream(private_path(".o")) << "x";
    std::exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(entries(dir_.path()), 0u);
}

// A forked process has a folder of its own and leaves its parent's.
TEST_F(PrivateFolder, BelongsToOneProcess) {
  std::string folder = private_folder();
  pid_t child = fork();
  if (child == 0) std::exit(private_folder() == folder ? 1 : 0);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(fs::is_directory(folder));
}

TEST_F(PrivateFolder, WhatTheKilledLeftIsSwept) {
  std::string old = leftover("tilewright-abcdef");
  private_folder();
  EXPECT_FALSE(fs::exists(old));
}

TEST_F(PrivateFolder, SweepingLeavesWhatLives) {
  pid_t child = fork();
  if (child == 0) {
    age(private_folder());
    std::ofstream(dir_.path("ready")) << "x";
    for (;;) pause();
  }
  while (!fs::exists(dir_.path("ready"))) usleep(1000);
  sweep_private_folders(dir_.path());
  EXPECT_EQ(entries(dir_.path()), 2u) << "its owner lives";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  for (const auto& e : fs::directory_iterator(dir_.path())) {
    if (e.is_directory()) age(e.path());
  }
  sweep_private_folders(dir_.path());
  EXPECT_EQ(entries(dir_.path()), 1u) << "its owner was killed";
}

TEST_F(PrivateFolder, SweepingLeavesWhatIsNotOurs) {
  std::string fresh = dir_.path("tilewright-fresh0");
  ASSERT_EQ(mkdir(fresh.c_str(), 0700), 0);
  std::string open_to_all = leftover("tilewright-open00");
  ASSERT_EQ(chmod(open_to_all.c_str(), 0755), 0);
  std::string other = leftover("something-else0"), victim = leftover("victim");
  fs::create_directory_symlink(victim, dir_.path("tilewright-link00"));
  std::string with_link = leftover("tilewright-holds0");
  fs::create_directory_symlink(victim, with_link + "/link");
  age(with_link);
  sweep_private_folders(dir_.path());
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_TRUE(fs::exists(open_to_all));
  EXPECT_TRUE(fs::exists(other));
  EXPECT_FALSE(fs::exists(with_link));
  EXPECT_TRUE(fs::exists(victim + "/0.so")) << "no symbolic link is followed";
}

TEST_F(PrivateFolder, NoDirectoryIsAnErrorThatSaysSo) {
  ScopedEnv nowhere("TMPDIR", dir_.path("nowhere"));
  EXPECT_THAT(
      test::error_of<ToolchainError>([] { private_folder(); }),
      HasSubstr("nowhere': No such file or directory; make room, or name another in TMPDIR"));
}

// The names that compilers wrote to could be guessed, and a link be planted there.
TEST_F(PrivateFolder, PlantedLinksAreNotWrittenTo) {
  std::string victim = dir_.path("victim");
  std::ofstream(victim) << "precious";
  for (int i = 0; i < 50; ++i) {
    fs::create_symlink(victim, dir_.path("tilewright-" + std::to_string(getpid()) + "-" +
                                         std::to_string(i) + ".so.tmp"));
  }
  CompileOptions options;
  options.use_cache = false;
  for (int i = 0; i < 3; ++i) compile(test::unary_kernel("c[0] = a[0];", 1), options);
  EXPECT_EQ(read_file(victim), "precious");
}

TEST_F(PrivateFolder, CompilersLeaveNothingBeside) {
  compile(test::unary_kernel("c[0] = a[0];", 1), {.compiler = "", .use_cache = false});
  size_t beside = 0;
  for (const auto& e : fs::directory_iterator(dir_.path())) beside += e.path() != private_folder();
  EXPECT_EQ(beside, 0u);
  EXPECT_EQ(entries(private_folder()), 0u);
}

}  // namespace
}  // namespace tilewright
