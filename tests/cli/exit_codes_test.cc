// Each exit code that is not about the command line, from the outside, with what is said.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "kernel/target.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class ExitCode : public Cli {
 protected:
  // The environment in which the compiler is a script that answers --version and else does `body`.
  std::string compiler(const std::string& body) {
    fs::path path = dir_ / "fake-cc";
    std::ofstream(path) << "#!/bin/sh\nif [ \"$1\" = --version ]; then echo fake 1.0; exit; fi\n"
                        << body << "\n";
    chmod(path.c_str(), 0755);
    return "TILEWRIGHT_CACHE=off TILEWRIGHT_CC='" + path.string() + "'";
  }
};

TEST_F(ExitCode, ThreeWhenNoCandidateIsValid) {
  Ran ran = run(std::string("tune --json --trials 3 --threads 1 ") + kSmall,
                compiler("echo 'no such type' >&2; exit 1"));
  EXPECT_EQ(ran.code, 3) << ran.err;
  Json result = ran.json()["results"][0];
  EXPECT_EQ(result["valid"], 0);
  EXPECT_EQ(result["invalid"]["compile"], 3);
  EXPECT_TRUE(result["best"].is_null());
  EXPECT_THAT(run(std::string("explain --json --threads 1 ") + kSmall).out,
              HasSubstr("\"hit\": false"));
}

TEST_F(ExitCode, SixWhenTheTimeEndsBeforeAValidCandidate) {
  Ran ran = run(std::string("tune --json --time 1s --threads 1 ") + kSmall, compiler("sleep 5"));
  EXPECT_EQ(ran.code, 6) << ran.err;
  EXPECT_EQ(ran.json()["results"][0]["valid"], 0);
}

TEST_F(ExitCode, FourWhenTheCompilersDiskIsFull) {
  Ran ran = run(std::string("tune --trials 3 --threads 1 ") + kSmall,
                compiler("echo 'fatal error: a.o: No space left on device' >&2; exit 1"));
  EXPECT_EQ(ran.code, 4) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("No space left on device; make room, or name another in TMPDIR"));
  EXPECT_EQ(run("db info --json").json()["rows"]["records"], 0) << "no fact about a candidate";
}

TEST_F(ExitCode, FourWhenTheTemporaryDirectoryIsMissing) {
  Ran ran = run(
      std::string("run --default --in A=a.npy --in B=a.npy --out C=c.npy ") + "matmul:m=1,n=1,k=1",
      "TILEWRIGHT_CACHE=off TMPDIR=/nonexistent/tmp");
  EXPECT_EQ(ran.code, 2) << "inputs are looked at first: " << ran.err;
  ran = run(std::string("tune --trials 2 --threads 1 ") + kSmall,
            "TILEWRIGHT_CACHE=off TMPDIR=/nonexistent/tmp");
  EXPECT_EQ(ran.code, 4) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("'/nonexistent/tmp': No such file or directory"));
}

TEST_F(ExitCode, FourForATargetThatDoesNotRunHere) {
  if (!Target::parse("avx512").missing_features().empty()) GTEST_SKIP() << "nothing to hide";
  const std::string without = "TILEWRIGHT_CPU_WITHOUT=avx512";
  const std::string spec = std::string("--target avx512 ") + kSmall;
  for (const char* command :
       {"tune --trials 2", "replay", "bench", "run --default --in A=a --in B=b --out C=c"}) {
    Ran ran = run(std::string(command) + " " + spec, without);
    EXPECT_EQ(ran.code, 4) << command << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("kernels of target 'avx512' do not run on this machine, which "
                                   "lacks avx512bw, avx512cd, avx512dq, avx512f, avx512vl; the "
                                   "widest that does is avx2"))
        << command;
  }
  EXPECT_FALSE(fs::exists(dir_ / "tilewright.db")) << "refused up front";
  EXPECT_EQ(run("tune --dry-run " + spec, without).code, 0) << "runs no kernel";
  EXPECT_EQ(run("show --default --source " + spec, without).code, 0) << "runs no kernel";
  Json targets = run("targets --json", without).json()["targets"];
  for (const Json& t : targets) {
    EXPECT_EQ(t["runs_here"], t["target"] != "avx512" && !t.contains("gpu")) << t;
  }
}

TEST_F(ExitCode, FourForCuda) {
  for (const char* command : {"bench", "replay", "run --in A=a --out C=c"}) {
    Ran ran = run(std::string(command) + " --target cuda:sm_80 " + kSmall);
    EXPECT_EQ(ran.code, 4) << command << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("kernels of target 'cuda:sm_80' do not run here: no GPU"))
        << command;
  }
  for (const char* command : {"tune --dry-run", "tune --offline", "replay", "best", "bench"}) {
    Ran ran = run(std::string(command) + " --target cuda:sm_70 " + kSmall);
    EXPECT_EQ(ran.code, 4) << command << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("'cuda:sm_70': nothing is known of this architecture"))
        << command;
  }
  EXPECT_FALSE(fs::exists(dir_ / "tilewright.db")) << "refused up front";
  EXPECT_EQ(run(std::string("tune --target cuda:sm ") + kSmall).code, 2);
}

TEST_F(ExitCode, OneWhenMemoryIsNotToBeHad) {
  // The largest output that a spec may ask for, of 8 TB.
  Ran ran =
      run("run --default --in A=a.npy --in B=b.npy --out C=c.npy "
          "matmul:m=1048576,n=1048576,k=1,dtype=f64");
  EXPECT_EQ(ran.code, 1) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("array 'C': no memory for 8796093022208 bytes"));
  EXPECT_THAT(ran.err, Not(HasSubstr("internal fault")));
}

TEST_F(ExitCode, OneWhenStandardOutputTakesNoMore) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  ASSERT_EQ(run(std::string("tune --quiet --trials 2 --threads 1 ") + kSmall).code, 0);
  for (const char* command : {"ops --json", "ops", "targets", "--help", "man", "best"}) {
    Ran ran = run(std::string(command) + " >/dev/full");
    EXPECT_EQ(ran.code, 1) << command;
    EXPECT_THAT(ran.err, HasSubstr("tune-cli: cannot write standard output")) << command;
    EXPECT_THAT(ran.err, Not(HasSubstr("internal fault"))) << command;
  }
}

}  // namespace
}  // namespace tilewright::cli
