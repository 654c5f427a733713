#include <algorithm>

#include "tests/database/fixture.h"

namespace tilewright::database::testing {
namespace {

using Kind = DatabaseError::Kind;

// Three databases that overlap, contradict each other in models and runs, and hold failures.
class Merge : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 3; ++i) {
      Store store = Store::open(path(i), Mode::Create);
      Transaction transaction = store.begin();
      store_with_artifact(store, sample_record(0));
      store_with_artifact(store, sample_record(10 + i, i));
      store.insert(sample_failure(20 + i, Verdict::Wrong, "differs"));
      Model model = sample_model(1);
      model.trained_on = i;
      model.created += i % 2;  // two of them tie
      store.put_model(model);
      if (i == 0) {
        TuningRun run;
        run.args = "{}";
        store.begin_run(run);
      }
      transaction.commit();
    }
    fs::copy_file(path(0), path(3));
    Store finished = Store::open(path(3), Mode::ReadWrite);
    finished.set_run_state(finished.runs().at(0).id, RunState::Finished);
  }

  fs::path path(int number) const { return folder_ / (std::to_string(number) + ".db"); }

  // The content after merging the databases in this order into an empty one.
  std::string merged(const std::vector<int>& order) const {
    Store store = Store::open_in_memory();
    for (const int each : order) store.merge(path(each));
    EXPECT_TRUE(store.check().ok());
    return content(store);
  }

  TempFolder folder_;
};

TEST_F(Merge, DoesNotDependOnOrderOrRepetition) {
  std::vector<int> order = {0, 1, 2, 3};
  const std::string expected = merged(order);
  while (std::next_permutation(order.begin(), order.end())) EXPECT_EQ(merged(order), expected);
  EXPECT_EQ(merged({2, 2, 3, 1, 0, 3, 2}), expected);
}

TEST_F(Merge, IsAssociative) {
  Store left = Store::open(folder_ / "left.db", Mode::Create);
  left.merge(path(0));
  left.merge(path(1));
  Store right = Store::open(folder_ / "right.db", Mode::Create);
  right.merge(path(2));
  right.merge(path(3));
  left.merge(folder_ / "right.db");
  EXPECT_EQ(content(left), merged({0, 1, 2, 3}));
}

TEST_F(Merge, TakesInEverythingOnce) {
  Store store = Store::open(path(0), Mode::ReadWrite);
  const MergeReport report = store.merge(path(1));
  EXPECT_EQ(report.tables.at("records"), (MergeReport::Counts{.added = 2, .same = 1}));
  EXPECT_EQ(report.tables.at("artifacts"), (MergeReport::Counts{.added = 1, .same = 1}));
  EXPECT_EQ(report.tables.at("models"), (MergeReport::Counts{.updated = 1}));
  EXPECT_TRUE(report.bad.empty());
  EXPECT_EQ(store.records().records.size(), 5u);
  EXPECT_EQ(store.merge(path(1)).tables.at("records"), (MergeReport::Counts{.same = 3}));
}

TEST_F(Merge, TheLaterModelAndStateOfARunWin) {
  for (const auto& order : {std::vector{0, 1, 3}, std::vector{3, 1, 0}}) {
    Store store = Store::open_in_memory();
    for (const int each : order) store.merge(path(each));
    EXPECT_EQ(store.model(sample_target().hash, "xgboost", 1).value->trained_on, 1);
    EXPECT_EQ(store.runs().at(0).state, RunState::Finished);
  }
}

TEST_F(Merge, LeavesDamagedRowsBehindAndReportsThem) {
  run_sql(path(1), "UPDATE records SET config = '{}' WHERE trial = 11");
  Store store = Store::open(path(0), Mode::ReadWrite);
  const MergeReport report = store.merge(path(1));
  ASSERT_EQ(report.bad.size(), 1u);
  EXPECT_EQ(report.bad[0].table, "records");
  EXPECT_EQ(report.tables.at("records").added, 1);
  EXPECT_TRUE(store.check().ok());
}

TEST_F(Merge, HealsDamagedRowsFromAHealthyCopy) {
  const std::string healthy = content(path(0));
  fs::copy_file(path(0), folder_ / "copy.db");
  run_sql(path(0),
          "UPDATE records SET config = '{}' WHERE trial = 0;"
          "UPDATE artifacts SET bytes = x'00';"
          "UPDATE targets SET chip = 'nonsense'");
  Store store = Store::open(path(0), Mode::ReadWrite);
  EXPECT_TRUE(store.records().records.empty());
  const MergeReport report = store.merge(folder_ / "copy.db");
  EXPECT_EQ(report.tables.at("records").healed, 1);
  EXPECT_EQ(report.tables.at("artifacts").healed, 2);
  EXPECT_EQ(report.tables.at("targets").healed, 1);
  EXPECT_EQ(content(store), healthy);
  EXPECT_TRUE(store.check().ok());
}

TEST_F(Merge, WithItselfChangesNothing) {
  Store store = Store::open(path(0), Mode::ReadWrite);
  const std::string before = content(store);
  EXPECT_TRUE(store.merge(path(0)).tables.empty());
  EXPECT_EQ(content(store), before);
}

TEST_F(Merge, OfWhatIsNotADatabaseChangesNothing) {
  Store store = Store::open(path(0), Mode::ReadWrite);
  const std::string before = content(store);
  database_error(Kind::NotFound, [&] { store.merge(folder_ / "none.db"); });
  write_file(folder_ / "text.db", std::string(5000, 'x'));
  database_error(Kind::NotADatabase, [&] { store.merge(folder_ / "text.db"); });
  EXPECT_EQ(content(store), before);
}

}  // namespace
}  // namespace tilewright::database::testing
