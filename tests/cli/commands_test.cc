// explain, bench and db prune: what they print of a small tuning run.
#include <gmock/gmock.h>

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
