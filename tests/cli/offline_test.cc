// tune --offline: the model ranks, nothing is measured, and nobody takes it for a measurement.
#include <gmock/gmock.h>

#include "database/store.h"
#include "tests/cli/support.h"
#include "tuner/search/tuner.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kOther = "matmul:m=40,n=64,k=24";

class OfflineCommand : public Cli {
 protected:
  // A model comes from tuning another matmul.
  void train() {
    Ran ran = run(std::string("tune --quiet --trials 4 --threads 1 ") + kSmall);
    ASSERT_EQ(ran.code, 0) << ran.err;
  }

  Ran rank(const std::string& more = "") {
    return run(std::string("tune --offline --json --trials 24 --threads 1 ") + kOther + " " + more);
  }
};

TEST_F(OfflineCommand, RecordsSayThatNothingWasMeasured) {
  train();
  Ran ranked = rank();
  ASSERT_EQ(ranked.code, 0) << ranked.err;
  Json result = ranked.json()["results"][0];
  EXPECT_EQ(result["predicted"], true);
  EXPECT_EQ(result["trials"], 24);
  EXPECT_TRUE(result["best"]["seconds"].is_null());
  EXPECT_TRUE(result["default_seconds"].is_null());
  EXPECT_GT(result["best"]["predicted_seconds"], 0);
  using namespace database;
  Store store = Store::open(dir_ / "tilewright.db", Mode::ReadOnly);
  int offline = 0;
  for (const Record& r : store.records().records) {
    if (!r.offline) continue;
    ++offline;
    EXPECT_TRUE(r.samples.empty());
    EXPECT_FALSE(r.confirmed);
    EXPECT_FALSE(r.artifact_hash.empty());
  }
  EXPECT_EQ(offline, 3);
}

// From an empty database, by the shipped model.
TEST_F(OfflineCommand, NoTrialsAreTheSame) {
  const Ran none = run(std::string("tune --trials 0 --json --threads 1 ") + kOther);
  ASSERT_EQ(none.code, 0) << none.err;
  const Json result = none.json()["results"][0];
  EXPECT_EQ(result["predicted"], true);
  EXPECT_GT(result["best"]["predicted_seconds"], 0);
  const Ran offline = run(std::string("tune --offline --json --threads 1 --db other.db ") + kOther);
  EXPECT_EQ(offline.json()["results"][0]["best"]["config"], result["best"]["config"]);
  const Json replay = run(std::string("replay --json --threads 1 ") + kOther).json()["results"][0];
  EXPECT_EQ(replay["hit"], true);
  EXPECT_EQ(replay["checked"], true);
}

TEST_F(OfflineCommand, DbTrainMakesTheModelAnewAndWritesIt) {
  train();
  Ran trained = run("db train --from-nothing -o model.ubj --json");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(trained.json()["samples"], 4);
  EXPECT_EQ(trained.json()["bytes"], fs::file_size(dir_ / "model.ubj"));
  EXPECT_EQ(rank().code, 0);
  std::string hash =
      run(std::string("best --json --threads 1 ") + kSmall).json()["results"][0]["workload"];
  Ran nothing = run("db train --without " + hash);
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("holds no measured trial of this machine"));
}

TEST_F(OfflineCommand, EqualSeedsRankAlike) {
  train();
  Json first = rank("--seed 5").json()["results"][0]["best"]["config"];
  EXPECT_EQ(rank("--seed 5").json()["results"][0]["best"]["config"], first);
}

TEST_F(OfflineCommand, BestAndReplayTellPredictionsFromMeasurements) {
  train();
  ASSERT_EQ(rank().code, 0);
  Json best = run(std::string("best --json --threads 1 ") + kOther).json()["results"][0];
  EXPECT_EQ(best["hit"], true);
  EXPECT_EQ(best["predicted"], true);
  EXPECT_TRUE(best["seconds"].is_null());
  EXPECT_THAT(run("best --threads 1").out, HasSubstr("predicted, not measured"));
  Json replayed = run(std::string("replay --json --require --threads 1 ") + kOther).json();
  EXPECT_EQ(replayed["results"][0]["predicted"], true);
  EXPECT_EQ(replayed["results"][0]["checked"], true);
  EXPECT_GT(replayed["results"][0]["seconds"], 0);
}

TEST_F(OfflineCommand, WhatWasNeverCheckedIsNeitherRunNorExported) {
  train();
  ASSERT_EQ(rank().code, 0);
  Ran exported = run(std::string("export -o out --threads 1 ") + kOther);
  EXPECT_EQ(exported.code, 7);
  EXPECT_THAT(exported.err, HasSubstr("ranked by the model only, never measured; this would tune"));
  EXPECT_EQ(run(std::string("report -o r.html --threads 1 ") + kOther).code, 7);
}

TEST_F(OfflineCommand, AMeasurementIsPreferredHoweverFastThePrediction) {
  train();
  ASSERT_EQ(rank().code, 0);
  {
    using namespace database;
    Store store = Store::open(dir_ / "tilewright.db", Mode::ReadWrite);
    for (Record r : store.records().records) {
      if (!r.offline) continue;
      r.median_seconds = r.best_seconds = 1e-12;
      store.insert(r);
    }
  }
  Ran tuned = run(std::string("tune --json --resume --trials 3 --threads 1 ") + kOther);
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  Json result = tuned.json()["results"][0];
  EXPECT_EQ(result["trials"], 3) << "ranked candidates are no trials";
  EXPECT_EQ(result["predicted"], false);
  Json best = run(std::string("best --json --threads 1 ") + kOther).json()["results"][0];
  EXPECT_EQ(best["predicted"], false);
  EXPECT_GT(best["seconds"], 1e-9);
}

// An empty database has no model of its own: the shipped one and the analytical one rank.
TEST_F(OfflineCommand, AnEmptyDatabaseIsRankedByTheShippedModels) {
  Ran ranked = rank();
  ASSERT_EQ(ranked.code, 0) << ranked.err;
  const Json result = ranked.json()["results"][0];
  EXPECT_EQ(result["predicted"], true);
  EXPECT_GT(result["valid"], 0);
  Json best = run(std::string("best --json --threads 1 ") + kOther).json()["results"][0];
  EXPECT_GT(best["predicted_seconds"], 1e-9);
  EXPECT_LT(best["predicted_seconds"], 0.1);
}

// One trial measures the best candidate, not the default, whose time nobody then knows.
TEST_F(OfflineCommand, OneTrialMeasuresWhatWouldBeChosenWithout) {
  Ran ranked = rank();
  ASSERT_EQ(ranked.code, 0) << ranked.err;
  Ran tuned = run(std::string("tune --json --no-warm-start --trials 1 --threads 1 ") + kOther);
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const Json result = tuned.json()["results"][0];
  EXPECT_EQ(result["trials"], 1);
  EXPECT_TRUE(result["default_seconds"].is_null());
  EXPECT_NE(result["best"]["config"], "{}");
}

}  // namespace
}  // namespace tilewright::cli
