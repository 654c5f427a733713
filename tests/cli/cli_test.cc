// tune-cli from the outside: exit codes, JSON, and what is kept.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

TEST_F(Cli, TunesAndReplaysWithoutACompiler) {
  Ran tuned = run(std::string("tune --json --trials 6 --threads 1 --seed 3 ") + kSmall);
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  Json result = tuned.json()["results"][0];
  EXPECT_EQ(result["trials"], 6);
  EXPECT_EQ(result["valid"], 6) << tuned.out;
  EXPECT_GT(result["best"]["seconds"], 0);
  EXPECT_LE(result["best"]["seconds"], result["default_seconds"]);
  for (const char* part : {"proposing", "building", "reference", "checks", "timing"}) {
    EXPECT_GT(result["spent_s"][part], 0) << part;
    EXPECT_LT(result["spent_s"][part], result["elapsed_s"]) << part;
  }
  for (const char* cause : {"compile", "runtime", "timeout", "wrong", "illegal"}) {
    EXPECT_TRUE(result["invalid"].contains(cause)) << cause;
  }
  Ran replayed = run(std::string("replay --json --require --threads 1 ") + kSmall,
                     "TILEWRIGHT_CC=/nonexistent/cc TILEWRIGHT_CACHE=/nonexistent");
  ASSERT_EQ(replayed.code, 0) << replayed.err;
  Json hit = replayed.json()["results"][0];
  EXPECT_EQ(hit["hit"], true);
  EXPECT_EQ(hit["checked"], true);
  EXPECT_EQ(hit["compiled"], false);
}

TEST_F(Cli, ResumeGoesOnWhereTheRunStopped) {
  ASSERT_EQ(run(std::string("tune --quiet --trials 4 --threads 1 ") + kSmall).code, 0);
  Ran more = run(std::string("tune --json --resume --trials 6 --threads 1 ") + kSmall);
  ASSERT_EQ(more.code, 0) << more.err;
  Json info = run("db info --json").json();
  EXPECT_EQ(more.json()["results"][0]["trials"], 6) << "confirmations are no trials";
  // Six trials, the first run's confirmation and the second's of its winner and of the first's, not
  // ten trials.
  EXPECT_LE(info["rows"]["records"], 9);
}

TEST_F(Cli, BadSpecsAreRefusedWithTheirPlaceAndWriteNothing) {
  Ran unknown = run("tune matmul:m=4,n=4,q=4");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("q"), std::string::npos) << unknown.err;
  EXPECT_NE(unknown.err.find("^"), std::string::npos) << unknown.err;
  std::ofstream(dir_ / "bad.json") << "{\"workloads\": [\n {\"op\": \"matmul\", \"m\": -3}]}";
  Ran file = run("tune bad.json");
  EXPECT_EQ(file.code, 2);
  EXPECT_NE(file.err.find("bad.json:2:"), std::string::npos) << file.err;
  EXPECT_FALSE(fs::exists(dir_ / "tilewright.db"));
}

TEST_F(Cli, UsageMistakesGiveTwo) {
  EXPECT_EQ(run("").code, 2);
  EXPECT_EQ(run("frobnicate").code, 2);
  EXPECT_EQ(run(std::string("tune --trials -1 ") + kSmall).code, 2);
  EXPECT_EQ(run(std::string("tune --time soon ") + kSmall).code, 2);
  EXPECT_EQ(run(std::string("tune --target sse9 ") + kSmall).code, 2);
  EXPECT_EQ(run("--help").code, 0);
  EXPECT_EQ(run("tune --help").code, 0);
}

TEST_F(Cli, AMissingCompilerGivesFour) {
  Ran ran = run(std::string("tune --trials 2 --threads 1 ") + kSmall,
                "TILEWRIGHT_CC=/nonexistent/cc TILEWRIGHT_CACHE='" + dir_.string() + "/cache'");
  EXPECT_EQ(ran.code, 4) << ran.err;
  EXPECT_NE(ran.err.find("/nonexistent/cc"), std::string::npos) << ran.err;
}

TEST_F(Cli, ADatabaseThatIsNoneGivesFive) {
  std::ofstream(dir_ / "tilewright.db") << "this is no database, but it is long enough to be read "
                                           "as one, with a header that does not fit at all.";
  EXPECT_EQ(run(std::string("tune --trials 2 ") + kSmall).code, 5);
  EXPECT_EQ(run(std::string("replay ") + kSmall).code, 5);
  fs::remove(dir_ / "tilewright.db");
  EXPECT_EQ(run(std::string("replay ") + kSmall).code, 5) << "a missing database";
}

TEST_F(Cli, AMissIsNoErrorUnlessRequired) {
  ASSERT_EQ(run(std::string("tune --quiet --trials 2 --threads 1 ") + kSmall).code, 0);
  Ran miss = run("replay --json --threads 1 matmul:m=5,n=5,k=5");
  EXPECT_EQ(miss.code, 0) << miss.err;
  EXPECT_EQ(miss.json()["results"][0]["hit"], false);
  EXPECT_EQ(run("replay --require --threads 1 matmul:m=5,n=5,k=5").code, 7);
  Ran other = run(std::string("replay --require --threads 2 ") + kSmall);
  EXPECT_EQ(other.code, 7) << "tuned for one thread, asked for two";
}

TEST_F(Cli, ShowsEverySection) {
  Ran ran = run(std::string("show --default --json --expr --program --trace --config --source ") +
                kSmall);
  ASSERT_EQ(ran.code, 0) << ran.err;
  Json row = ran.json()["results"][0];
  EXPECT_EQ(row["expr"], "C[i, j] += A[i, k] * B[k, j]\n");
  for (const char* section : {"program", "trace", "config", "source"}) {
    EXPECT_TRUE(row.contains(section)) << section;
  }
}

TEST_F(Cli, DatabasesMergeExportAndImport) {
  ASSERT_EQ(run(std::string("tune --quiet --trials 2 --threads 1 --db a.db ") + kSmall).code, 0);
  ASSERT_EQ(run("tune --quiet --trials 2 --threads 1 --db b.db matmul:m=8,n=8,k=8").code, 0);
  ASSERT_EQ(run("db merge b.db --db a.db").code, 0);
  EXPECT_EQ(run("best --json --db a.db --threads 1").json()["results"].size(), 2u);
  ASSERT_EQ(run("db export all.jsonl --db a.db").code, 0);
  ASSERT_EQ(run("db import all.jsonl --db c.db").code, 0);
  EXPECT_EQ(run("best --json --db c.db --threads 1").json()["results"].size(), 2u);
}

TEST_F(Cli, ADryRunShowsThePlanAndWritesNothing) {
  Ran plain = run(std::string("tune --dry-run ") + kSmall);
  EXPECT_EQ(plain.out, "matmul:m=32,n=48,k=16\nC[i, j] += A[i, k] * B[k, j]\n");
  Json plan = run(std::string("tune --dry-run --json ") + kSmall).json()["results"][0];
  EXPECT_EQ(plan["spec"], kSmall);
  EXPECT_EQ(plan["expr"], "C[i, j] += A[i, k] * B[k, j]\n");
  EXPECT_FALSE(fs::exists(dir_ / "tilewright.db"));
}

TEST_F(Cli, StandardOutputHoldsOneThing) {
  Ran both = run("db export - --json");
  EXPECT_EQ(both.code, 2);
  EXPECT_NE(both.err.find("--json and the file '-' both need standard output"), std::string::npos)
      << both.err;
}

TEST_F(Cli, ListsOperatorsAndTargets) {
  Json ops = run("ops --json").json();
  EXPECT_EQ(ops["ops"].size(), 18u);
  Json targets = run("targets --json").json()["targets"];
  EXPECT_GE(targets.size(), 4u);
  for (const Json& t : targets) {
    Json wanted = Json::array();
    if (t["target"] == "avx2") {
      wanted = {"avx2.vpmaddubsw",     "avx2.vpmaddubsw_lanes", "avx2.vpmaddwd",
                "avx2.vpmaddwd_i8_i8", "avx2.vpmaddwd_u8_i8",   "avx2.vpmaddwd_i8_u8",
                "avx2.vpmaddwd_u8_u8", "avx2.vfmadd231ps"};
    }
    if (t["target"] == "avx2" || t["target"] == "generic") {
      EXPECT_EQ(t["intrinsics"], wanted) << t;
    }
  }
}

}  // namespace
}  // namespace tilewright::cli
