#include "tests/database/fixture.h"

namespace tilewright::database::testing {
namespace {

class Prune : public ::testing::Test {
 protected:
  void SetUp() override {
    store_ = Store::open(folder_ / "a.db", Mode::Create);
    Transaction transaction = store_->begin();
    Record untuned = sample_record(9);
    untuned.is_default = true;
    store_with_artifact(*store_, untuned);
    for (int i = 0; i < 6; ++i) store_with_artifact(*store_, sample_record(i));
    Record two_threads = sample_record(7);
    two_threads.threads = 2;
    store_with_artifact(*store_, two_threads);
    store_->insert(sample_failure(10, Verdict::Wrong, "differs"));
    Record failed_elsewhere = sample_failure(11, Verdict::Timeout, "10 s");
    failed_elsewhere.target = sample_target("Ice Lake");
    failed_elsewhere.workload_canonical = "another";
    failed_elsewhere.workload_hash = content_hash("another");
    store_->insert(failed_elsewhere);
    transaction.commit();
  }

  std::vector<int> trials() const {
    std::vector<int> found;
    for (const Record& record : store_->records({.by_time = true}).records) {
      found.push_back(record.trial);
    }
    return found;
  }

  TempFolder folder_;
  std::optional<Store> store_;
};

TEST_F(Prune, KeepsTheBestOfEachGroupAndTheDefault) {
  const PruneReport report = store_->prune({.keep_best = 2});
  EXPECT_EQ(trials(), (std::vector<int>{0, 1, 7, 9}));
  EXPECT_EQ(report.records, 6);
  EXPECT_EQ(report.artifacts, 4);
  EXPECT_EQ(report.workloads, 1);
  EXPECT_EQ(report.targets, 1);
  EXPECT_EQ(store_->info().rows.at("artifacts"), 4);
  EXPECT_TRUE(store_->check().ok());
}

TEST_F(Prune, ShrinksTheFile) {
  const PruneReport report = store_->prune({.keep_best = 1});
  EXPECT_LT(report.bytes_after, report.bytes_before);
  EXPECT_EQ(report.bytes_after, static_cast<int64_t>(fs::file_size(folder_ / "a.db")));
}

TEST_F(Prune, KeepsFailuresOnRequest) {
  EXPECT_EQ(store_->prune({.keep_best = 1, .keep_failures = true}).records, 5);
  EXPECT_EQ(trials(), (std::vector<int>{10, 11, 0, 7, 9}));
}

TEST_F(Prune, DropsWhatWasOnlyRanked) {
  Record offline = sample_record(12);
  offline.offline = true;
  offline.median_seconds = 1e-9;
  store_->insert(offline);
  store_->prune({.keep_best = 100});
  EXPECT_EQ(trials(), (std::vector<int>{0, 1, 2, 3, 4, 5, 7, 9}));
}

// A table that a model predicted names ranked records; without them it would answer nothing.
TEST_F(Prune, KeepsTheRankedRecordsOfATable) {
  std::vector<Record> ranked;
  for (int number : {12, 13, 14}) {
    Record offline = sample_record(number);
    offline.offline = true;
    ranked.push_back(store_with_artifact(*store_, offline));
  }
  store_->put_dispatch(sample_dispatch({ranked[0], ranked[1]}));
  store_->prune({.keep_best = 1});
  EXPECT_EQ(trials(), (std::vector<int>{0, 7, 9, 12, 13}));
  EXPECT_TRUE(store_->check().ok());
}

TEST_F(Prune, CountsWithoutChangingInADryRun) {
  const std::string before = content(*store_);
  const PruneReport report = store_->prune({.keep_best = 2, .dry_run = true});
  EXPECT_EQ(report.records, 6);
  EXPECT_EQ(report.artifacts, 4);
  EXPECT_EQ(content(*store_), before);
}

TEST_F(Prune, TwiceIsOnce) {
  store_->prune({.keep_best = 3});
  const std::string once = content(*store_);
  EXPECT_EQ(store_->prune({.keep_best = 3}).records, 0);
  EXPECT_EQ(content(*store_), once);
}

TEST_F(Prune, DropsDamagedRowsOnlyOnRequest) {
  run_sql(folder_ / "a.db", "UPDATE records SET threads = 3 WHERE trial = 0");
  EXPECT_EQ(store_->prune({}).damaged, 0);
  EXPECT_EQ(store_->check().rows.size(), 1u);
  EXPECT_EQ(store_->prune({.drop_damaged = true}).damaged, 1);
  EXPECT_TRUE(store_->check().ok());
}

TEST_F(Prune, RefusesToKeepNothing) {
  EXPECT_EQ(record_error([&] { store_->prune({.keep_best = 0}); }),
            "prune must keep at least 1 record of each workload, got 0");
}

}  // namespace
}  // namespace tilewright::database::testing
