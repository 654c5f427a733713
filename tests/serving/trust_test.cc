// Whose kernels tw_prepare loads, and processes that are forked meanwhile.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <thread>

#include "tests/serving/fixture.h"
#include "tilewright/tilewright.hpp"

namespace tilewright::serving::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kTrustSpec = "matmul:m=4,n=8,k=16";

// How the spec is served, and why not better.
std::pair<tw_outcome, std::string> outcome(const std::string& path,
                                           const tw::Library::Trust& trust = {}) {
  std::vector<std::string> lines;
  const auto log = [&](const std::string& line) { lines.push_back(line); };
  const tw::Prepared prepared = tw::Library(path, log, trust).prepare({.specs = {kTrustSpec}});
  const tw_report report = prepared.report().at(0);
  return {report.outcome, report.reason};
}

TEST(ServingTrust, AFileThatOthersMayWriteIsAMiss) {
  Database db{{}};
  EXPECT_EQ(outcome(db.path()).first, TW_HIT);
  ASSERT_EQ(chmod(db.path().c_str(), 0666), 0);
  const auto [result, reason] = outcome(db.path());
  EXPECT_EQ(result, TW_MISS);
  EXPECT_THAT(reason, AllOf(HasSubstr("its code is not trusted"), HasSubstr("chmod go-w")));
}

TEST(ServingTrust, TuningIsNoRemedyForAFileThatOthersMayWrite) {
  Database db{{}};
  ASSERT_EQ(chmod(db.path().c_str(), 0666), 0);
  Opened opened(db.path());
  const PreparedSpec prepared(opened.library, kTrustSpec);
  EXPECT_STREQ(prepared.report().command, "");
  EXPECT_EQ(prepared.found, TW_ERROR_MISS);
  EXPECT_THAT(tw_last_error(), HasSubstr("chmod go-w"));
  EXPECT_THAT(tw_last_error(), ::testing::Not(HasSubstr("this would tune it")));
}

TEST(ServingTrust, AFileOfSomebodyElseIsAMiss) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may give a file away";
  Database db{{}};
  ASSERT_EQ(chown(db.path().c_str(), 1000, 1000), 0);
  EXPECT_EQ(outcome(db.path()).first, TW_MISS);
}

// The untuned default of a file is code like any other.
TEST(ServingTrust, WhatWasMergedIsAMiss) {
  Database other{{.tag = 1, .is_default = true}, {.tag = 2}};
  test::TempDir folder;
  const std::string own = folder.path("own.db");
  database::Store::open(own, database::Mode::Create).merge(other.path());
  const auto [result, reason] = outcome(own);
  EXPECT_EQ(result, TW_MISS);
  EXPECT_THAT(reason, HasSubstr("came by merge from"));
}

// A database whose kernel makes a file, which is how the tests see that its code ran.
class MarkingKernel : public ::testing::Test {
 protected:
  // A sound object in which `code` stands before the kernel, and what it defines as TW_BEGIN runs
  // with each call.
  void store(const std::string& code) {
    KernelSource source = hand_made_source({});
    const size_t body = source.code.find("struct closure s = {");
    source.code.insert(body, "TW_BEGIN ");
    source.code.insert(test::kPrelude.size(),
                       "int creat(const char*, unsigned);\n"
                       "static void mark(void) { creat(\"" +
                           mark() + "\", 0600); }\n" + code + "\n");
    auto database = database::Store::open(path(), database::Mode::Create);
    add_kernel(database, {}, source);
  }

  // The same, by a system call alone: no gate but trust keeps it from running.
  void store_system_call() {
#if defined(__x86_64__)
    store("static const char path[] = \"" + mark() +
          "\";\n#define TW_BEGIN { long made; __asm__ volatile(\"syscall\" : \"=a\"(made) : "
          "\"a\"(85), \"D\"(path), \"S\"(0600) : \"rcx\", \"r11\", \"memory\"); }");
#else
    GTEST_SKIP() << "knows the system calls of x86-64 alone";
#endif
  }

  // Prepares, packs and launches as far as the library allows; returns the report's reason.
  std::string use(const std::string& database) {
    Opened opened(database);
    PreparedSpec prepared(opened.library, kTrustSpec);
    if (prepared.found != TW_OK) return prepared.report().reason;
    const Floats a({4, 16}, 1), b({16, 8}, 2), c({4, 8});
    const Packed weights(prepared.kernel, b);
    EXPECT_EQ(launch(prepared.kernel, a, nullptr, c, weights.weights), TW_OK) << tw_last_error();
    return "";
  }

  std::string path() const { return folder_.path("kernels.db"); }
  std::string mark() const { return folder_.path("mark"); }
  bool marked() const { return std::filesystem::exists(mark()); }

  test::TempDir folder_;
};

// The other tests look for a mark: here is what leaves one.
TEST_F(MarkingKernel, RunsWhereItIsTheUsersOwn) {
  ASSERT_NO_FATAL_FAILURE(store_system_call());
  if (IsSkipped()) return;
  EXPECT_EQ(use(path()), "");
  EXPECT_TRUE(marked());
}

TEST_F(MarkingKernel, OfSomebodyElseRunsNowhere) {
  store_system_call();
  if (IsSkipped()) return;
  ASSERT_EQ(chmod(path().c_str(), 0666), 0);
  EXPECT_THAT(use(path()), HasSubstr("its code is not trusted"));
  EXPECT_FALSE(marked());
}

TEST_F(MarkingKernel, ThatWasMergedOrImportedRunsNowhere) {
  store_system_call();
  if (IsSkipped()) return;
  const std::string merged = folder_.path("merged.db"), imported = folder_.path("imported.db");
  database::Store::open(merged, database::Mode::Create).merge(path());
  EXPECT_THAT(use(merged), HasSubstr("came by merge from"));
  std::stringstream lines;
  database::Store::open(path(), database::Mode::ReadOnly).export_jsonl(lines);
  database::Store::open(imported, database::Mode::Create).import_jsonl(lines, "k.jsonl");
  EXPECT_THAT(use(imported), HasSubstr("came by import from 'k.jsonl'"));
  EXPECT_FALSE(marked());
  // A serving file holds what may run where it was made.
  const std::string served = folder_.path("serve.db");
  database::Store::open(merged, database::Mode::ReadOnly).export_serving(served);
  EXPECT_NE(use(served), "");
  EXPECT_FALSE(marked());
}

// Also in a file of the user's own.
TEST_F(MarkingKernel, WithAnInitializerIsNotLoaded) {
  store("#define TW_BEGIN\n__attribute__((constructor)) static void first(void) { mark(); }");
  EXPECT_THAT(use(path()), HasSubstr("runs when it is loaded or unloaded (DT_INIT_ARRAY)"));
  EXPECT_FALSE(marked());
}

TEST_F(MarkingKernel, WithACallOutsideTheListIsNotLoaded) {
  store("#define TW_BEGIN mark();");
  EXPECT_THAT(use(path()), HasSubstr("it takes 'creat' from other libraries"));
  EXPECT_FALSE(marked());
}

TEST(ServingTrust, ASignedKernelIsServedToThoseWhoTrustTheKey) {
  Database db{{}};
  test::TempDir folder;
  const auto key = database::SigningKey::generate(folder.path("a.key"));
  const auto other = database::SigningKey::generate(folder.path("b.key"));
  database::Store::open(db.path(), database::Mode::ReadWrite).sign(key);
  ASSERT_EQ(chmod(db.path().c_str(), 0666), 0);
  EXPECT_EQ(outcome(db.path()).first, TW_MISS);
  EXPECT_EQ(outcome(db.path(), {{other.public_key}}).first, TW_MISS);
  EXPECT_EQ(outcome(db.path(), {{other.public_key, key.public_key}}).first, TW_HIT);
  try {
    outcome(db.path(), {{"beef"}});
    FAIL() << "expected an error";
  } catch (const tw::Error& e) {
    EXPECT_EQ(e.status(), TW_ERROR_ARGUMENT);
    EXPECT_THAT(e.what(), HasSubstr("64 hexadecimal digits, got 'beef'"));
  }
}

TEST(ServingTrust, APinnedServingFileMayBeAnybodys) {
  Database db{{}};
  test::TempDir folder;
  const std::string served = folder.path("serve.db");
  const std::string pin =
      database::Store::open(db.path(), database::Mode::ReadOnly).export_serving(served).sha256;
  EXPECT_EQ(outcome(served).first, TW_HIT);
  ASSERT_EQ(chmod(served.c_str(), 0666), 0);
  EXPECT_EQ(outcome(served).first, TW_MISS);
  EXPECT_EQ(outcome(served, {{}, pin}).first, TW_HIT);
  try {
    outcome(served, {{}, std::string(64, '0')});
    FAIL() << "expected an error";
  } catch (const tw::Error& e) {
    EXPECT_EQ(e.status(), TW_ERROR_DATABASE);
    EXPECT_THAT(e.what(), AllOf(HasSubstr("is not the file that was pinned"), HasSubstr(pin)));
  }
}

TEST(ServingTrust, AFifoIsRefusedAtOnce) {
  test::TempDir folder;
  const std::string path = folder.path("fifo.db");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  for (const tw::Library::Trust& trust : {tw::Library::Trust{}, {{}, std::string(64, '0')}}) {
    try {
      outcome(path, trust);
      FAIL() << "expected an error";
    } catch (const tw::Error& e) {
      EXPECT_EQ(e.status(), TW_ERROR_DATABASE);
      EXPECT_THAT(e.what(), HasSubstr("is a FIFO, socket or device"));
    }
  }
}

TEST(ServingTrust, AWeightThatIsGivenTwiceIsRefused) {
  Database db{{}};
  tw::Prepared prepared = tw::Library(db.path()).prepare({.specs = {kTrustSpec}});
  Floats b({16, 8}, 1), other({16, 8}, 2);
  try {
    prepared.find(kTrustSpec).pack({{"B", &b.tensor}, {"B", &other.tensor}});
    FAIL() << "expected an error";
  } catch (const tw::Error& e) {
    EXPECT_EQ(e.status(), TW_ERROR_ARGUMENT);
    EXPECT_THAT(e.what(), HasSubstr("tensors[1]: 'B' was given before"));
  }
}

TEST(ServingTrust, ADimensionThatIsNamedTwiceIsRefused) {
  Database db{{.spec = "matmul:m=1..64,n=8,k=16", .dynamic = true}};
  tw::Library library(db.path());
  try {
    library.prepare({.specs = {"matmul:m=1..64,n=8,k=16"}, .sizes = {{"m", {1}}, {"m", {2}}}});
    FAIL() << "expected an error";
  } catch (const tw::Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("'m' is named twice"));
  }
}

// Whether the child ends by itself, and how.
int status_of(pid_t child) {
  for (int tenths = 0; tenths < 300; ++tenths) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(tenths < 50 ? 2 : 100));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return -1;
}

// Children of a process whose threads open databases all the time: each inherits whatever locks were
// held in that moment.
TEST(ServingFork, AChildOpensWhileTheParentsThreadsDo) {
  Database db{{.tag = 1}, {.tag = 2, .seconds = 2e-6}};
  const std::string path = db.path();
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!done) outcome(path);
    });
  }
  for (int i = 0; i < 150; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(outcome(path).first == TW_HIT ? 0 : 3);
    const int status = status_of(child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "child " << i << ": " << status;
    if (HasFailure()) break;
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

// A log function may wait for a thread that forks, as one that needs Python's lock does.
TEST(ServingFork, ALogFunctionMayBeForkedAndFork) {
  Database db{{.is_default = true, .target = database::make_target("Another Chip", "", 4, "")}};
  int children = 0;
  const auto fork_child = [&] {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    if (status_of(child) == 0) ++children;
  };
  const tw::Library library(db.path(), [&](const std::string&) {
    fork_child();
    std::thread(fork_child).join();
  });
  library.prepare({.specs = {kTrustSpec}});
  EXPECT_EQ(children, 2);
}

}  // namespace
}  // namespace tilewright::serving::testing
