// explain, bench and db prune: what they print of a small tuning run.
#include <gmock/gmock.h>

#include "database/store.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;

class Commands : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    Ran tuned = run(std::string("tune --json --trials 5 --threads 1 ") + kSmall);
    ASSERT_EQ(tuned.code, 0) << tuned.err;
    best_ = tuned.json()["results"][0]["best"];
  }

  Json best_;
};

TEST_F(Commands, ExplainHoldsTheBestAgainstDefaultRunnerUpAndRoofline) {
  Ran ran = run(std::string("explain --json --threads 1 ") + kSmall);
  ASSERT_EQ(ran.code, 0) << ran.err;
  Json e = ran.json()["results"][0];
  EXPECT_EQ(e["hit"], true);
  EXPECT_EQ(e["config"], best_["config"]);
  EXPECT_EQ(e["seconds"], best_["seconds"]);
  EXPECT_EQ(e["roofline"]["flops"], 2 * 32 * 48 * 16);
  EXPECT_EQ(e["roofline"]["bytes"], 4 * (32 * 16 + 16 * 48 + 32 * 48));
  EXPECT_GT(e["roofline"]["fraction"], 0);
  EXPECT_GT(e["default"]["ratio"], 0);
  // An answer that differs: else it would be the same candidate.
  EXPECT_FALSE(e["runner_up"]["differs"].empty());
  Ran text = run(std::string("explain --threads 1 ") + kSmall);
  EXPECT_THAT(text.out, HasSubstr("of this machine's roofline"));
  EXPECT_THAT(text.out, HasSubstr("untuned default: "));
  EXPECT_THAT(text.out, HasSubstr("runner-up: "));
}

TEST_F(Commands, ExplainSaysWhyThereIsNothingToExplain) {
  Ran ran = run("explain --json --threads 1 matmul:m=5,n=5,k=5");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["results"][0]["hit"], false);
  EXPECT_FALSE(ran.json()["results"][0]["miss"].get<std::string>().empty());
}

TEST_F(Commands, MissesTellTheNextCommand) {
  const std::string command =
      "this would tune it: tune-cli tune 'matmul:m=5,n=5,k=5' --db tilewright.db --threads 1";
  for (const char* name : {"replay", "explain", "bench"}) {
    Ran ran = run(std::string(name) + " --threads 1 matmul:m=5,n=5,k=5");
    EXPECT_THAT(ran.out, HasSubstr("miss: never tuned")) << name;
    EXPECT_THAT(ran.err, HasSubstr(command)) << name;
  }
}

TEST_F(Commands, BestReadsSpecsFromStandardInputAndTellsOfAnEmptyDatabase) {
  Ran piped = shell(std::string("echo ") + kSmall +
                    " | " TILEWRIGHT_BINARY_DIR "/tune-cli best - --threads 1");
  EXPECT_EQ(piped.code, 0) << piped.err;
  EXPECT_THAT(piped.out, HasSubstr(kSmall));
  database::Store::open(dir_ / "empty.db", database::Mode::Create);
  Ran empty = run("best --db empty.db");
  EXPECT_EQ(empty.code, 0) << empty.err;
  EXPECT_THAT(empty.err, HasSubstr("'empty.db' has no kernel"));
  EXPECT_THAT(empty.err, HasSubstr("'tune-cli tune SPEC --db empty.db' makes one"));
}

// Nothing was raced with the runner-up: its time is that of one trial.
TEST_F(Commands, ExplainSaysWhereTheRunnerUpWasMeasuredOnce) {
  {
    using namespace database;
    const Store from = Store::open(dir_ / "tilewright.db", Mode::ReadOnly);
    Store to = Store::open(dir_ / "other.db", Mode::Create);
    for (Record& record : from.records({.verdict = Verdict::Valid}).records) {
      if (const database::Lookup<Artifact> artifact = from.artifact(record))
        record.artifact_hash = to.put_artifact(*artifact.value);
      record.confirmed = Json::parse(record.config) == best_["config"];
      to.insert(record);
    }
  }
  const std::string with = std::string(" --db other.db --threads 1 ") + kSmall;
  const Ran text = run("explain" + with);
  EXPECT_THAT(text.out, HasSubstr("by its first measurement"));
  EXPECT_EQ(run("explain --json" + with).json()["results"][0]["runner_up"]["confirmed"], false);
}

TEST_F(Commands, BenchTimesHitsAndTellsMisses) {
  Ran ran = run(std::string("bench --json --rounds 1 --threads 1 matmul:m=5,n=5,k=5 ") + kSmall);
  ASSERT_EQ(ran.code, 0) << ran.err;
  Json results = ran.json()["results"];
  ASSERT_EQ(results.size(), 2u);
  EXPECT_TRUE(results[0].contains("miss"));
  EXPECT_FALSE(results[0].contains("seconds"));
  EXPECT_EQ(results[1]["spec"], kSmall);
  EXPECT_EQ(results[1]["threads"], 1);
  EXPECT_GT(results[1]["seconds"], 0);
  EXPECT_GT(results[1]["gflops"], 0);
  EXPECT_GT(results[1]["roofline_fraction"], 0);
  for (const auto& [peer, measured] : results[1]["peers"].items()) {
    const Json& ratio = results[1]["ratio"][peer];
    if (results[1]["disturbed"].get<bool>()) {
      EXPECT_TRUE(ratio.is_null()) << peer;
    } else {
      EXPECT_DOUBLE_EQ(ratio.get<double>(),
                       measured["seconds"].get<double>() / results[1]["seconds"].get<double>())
          << peer;
    }
    // Every peer computed what the kernel did.
    EXPECT_LT(measured["difference"].get<double>(), 1e-4) << peer;
    EXPECT_EQ(measured["counts"].get<bool>(), !measured.value("reference", false)) << peer;
  }
}

TEST_F(Commands, PruneKeepsTheBestAndTheDefault) {
  Json before = run("db info --json").json()["rows"];
  Ran counted = run("db prune --json --keep 1 --dry-run");
  ASSERT_EQ(counted.code, 0) << counted.err;
  EXPECT_EQ(run("db info --json").json()["rows"], before) << "--dry-run changes nothing";
  Ran pruned = run("db prune --json --keep 1");
  ASSERT_EQ(pruned.code, 0) << pruned.err;
  EXPECT_EQ(pruned.json()["records"], counted.json()["records"]);
  EXPECT_GE(pruned.json()["records"], 1);
  Json after = run("db info --json").json()["rows"];
  EXPECT_EQ(after["records"].get<int>(),
            before["records"].get<int>() - pruned.json()["records"].get<int>());
  Json best = run(std::string("best --json --threads 1 ") + kSmall).json()["results"][0];
  EXPECT_EQ(best["config"], best_["config"]);
  Json explained = run(std::string("explain --json --threads 1 ") + kSmall).json()["results"][0];
  EXPECT_TRUE(explained.contains("default"));
  EXPECT_EQ(run("db check").code, 0);
  EXPECT_EQ(run("db prune --keep 0").code, 2);
}

}  // namespace
}  // namespace tilewright::cli
