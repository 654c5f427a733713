#include "database/serving.h"

#include "tests/database/fixture.h"

namespace tilewright::database::testing {
namespace {

using Kind = DatabaseError::Kind;

// A database after tuning two workloads, one of them with a dispatch table.
class Serving : public ::testing::Test {
 protected:
  void SetUp() override {
    Store store = Store::open(source(), Mode::Create);
    Transaction transaction = store.begin();
    for (int i = 0; i < 6; ++i) records_.push_back(store_with_artifact(store, sample_record(i)));
    Record untuned = sample_record(9);
    untuned.is_default = true;
    records_.push_back(store_with_artifact(store, untuned));
    store_with_artifact(store, sample_record(3, 1));
    store_with_artifact(store, sample_record(4, 1));
    store.insert(sample_failure(20, Verdict::Wrong, "differs"));
    store.put_model(sample_model(1));
    TuningRun run;
    run.args = "{}";
    store.begin_run(run);
    table_ = sample_dispatch({records_[2], records_[4]});
    table_.default_record = records_[6].id;
    store.put_dispatch(table_);
    transaction.commit();
  }

  fs::path source() const { return folder_ / "all.db"; }
  fs::path file() const { return folder_ / "to serve?.db"; }  // a name that needs escaping in a URI

  ServingReport write() const {
    return Store::open(source(), Mode::ReadOnly).export_serving(file());
  }

  TempFolder folder_;
  std::vector<Record> records_;
  DispatchTable table_;
};

TEST_F(Serving, HoldsWinnersDefaultsAndTablesAndNothingElse) {
  const ServingReport report = write();
  EXPECT_EQ(report.records, 5);
  EXPECT_EQ(report.tables, 1);
  const Store served = Store::open(file(), Mode::ReadOnly);
  std::vector<int> trials;
  for (const Record& record : served.records({.by_time = true}).records) {
    trials.push_back(record.trial);
    EXPECT_EQ(record.verdict, Verdict::Valid);
  }
  EXPECT_EQ(trials, (std::vector<int>{0, 2, 3, 4, 9}));
  const Info info = served.info();
  EXPECT_TRUE(info.serving);
  EXPECT_EQ(info.rows.at("artifacts"), 5);
  EXPECT_EQ(info.rows.at("workloads"), 2);
  EXPECT_EQ(info.rows.at("targets"), 1);
  EXPECT_EQ(info.rows.at("models"), 0);
  EXPECT_EQ(info.rows.at("runs"), 0);
  EXPECT_EQ(served.dispatch_tables(), std::vector{table_});
  EXPECT_TRUE(served.check().ok());
  EXPECT_EQ(report.bytes, static_cast<int64_t>(fs::file_size(file())));
  EXPECT_LT(fs::file_size(file()), fs::file_size(source()));
}

TEST_F(Serving, AnswersAsTheWholeDatabaseDoes) {
  write();
  const Store whole = Store::open(source(), Mode::ReadOnly);
  const Store served = Store::open(file(), Mode::ReadOnly);
  for (const int workload : {0, 1}) {
    const BestQuery query = query_for(sample_record(0, workload));
    EXPECT_EQ(served.best(query).record, whole.best(query).record) << workload;
    EXPECT_EQ(served.best(query).artifact, whole.best(query).artifact) << workload;
  }
  const DispatchResult dispatch = served.dispatch(query_for(records_[0]));
  ASSERT_TRUE(dispatch.table) << dispatch.miss;
  EXPECT_EQ(dispatch.kernel_at({{"m", 64}})->record.id, records_[4].id);
}

TEST_F(Serving, IsReadWithoutLocks) {
  write();
  fs::permissions(file(), fs::perms::owner_all);
  sqlite3* writer = nullptr;
  ASSERT_EQ(sqlite3_open(file().c_str(), &writer), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(writer, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_EQ(Store::open(file(), Mode::ReadOnly, milliseconds(0)).records().records.size(), 5u);
  sqlite3_close(writer);
}

TEST_F(Serving, IsNotOpenedForWriting) {
  write();
  for (const Mode mode : {Mode::ReadWrite, Mode::Create}) {
    EXPECT_EQ(database_error(Kind::Unwritable, [&] { Store::open(file(), mode); }),
              "database '" + file().string() +
                  "' was written for serving and is not changed: name the database that it was "
                  "exported from");
  }
  Store served = Store::open(file(), Mode::ReadOnly);
  database_error(Kind::Unwritable, [&] { served.insert(sample_record(30)); });
}

TEST_F(Serving, ReplacesAnEarlierOneAndNothingElse) {
  write();
  Store::open(source(), Mode::ReadWrite).insert(sample_failure(21, Verdict::Timeout, "10 s"));
  write();
  EXPECT_TRUE(Store::open(file(), Mode::ReadOnly).check().ok());
  const Store store = Store::open(source(), Mode::ReadOnly);
  write_file(folder_ / "precious.txt", "kept");
  EXPECT_EQ(
      database_error(Kind::Unwritable, [&] { store.export_serving(folder_ / "precious.txt"); }),
      "'" + (folder_ / "precious.txt").string() +
          "' is there and is no serving file: name another, or remove it");
  EXPECT_EQ(read_file(folder_ / "precious.txt"), "kept");
  EXPECT_EQ(database_error(Kind::Unwritable, [&] { store.export_serving(source()); }),
            "'" + source().string() + "' is the database itself: name another file");
}

TEST_F(Serving, IsTakenInByAMerge) {
  write();
  Store store = Store::open_in_memory();
  EXPECT_TRUE(store.merge(file()).bad.empty());
  EXPECT_EQ(content(store), content(file()));
}

TEST_F(Serving, DamageIsSeenThereToo) {
  write();
  fs::permissions(file(), fs::perms::owner_all);
  run_sql(file(), "UPDATE artifacts SET source = 'other'");
  const Store served = Store::open(file(), Mode::ReadOnly);
  EXPECT_FALSE(served.best(query_for(records_[0])).record);
  EXPECT_FALSE(served.dispatch(query_for(records_[0])).table);
  EXPECT_EQ(served.check().rows.size(), 5u);
}

}  // namespace
}  // namespace tilewright::database::testing
