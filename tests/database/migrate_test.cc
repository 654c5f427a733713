#include <cmath>

#include "database/schema.h"
#include "database/tables/convert.h"
#include "database/tables/row.h"
#include "tests/database/fixture.h"

namespace tilewright::database::testing {
namespace {

using Kind = DatabaseError::Kind;

// A file as the first version of the tool wrote it.
void make_version_1(const fs::path& path, const std::vector<Record>& records) {
  const Connection connection(path.string(), Connection::Access::Create, milliseconds(0));
  SqlTransaction transaction(connection, SqlTransaction::Kind::Write);
  create_schema(connection, 1);
  for (const Record& record : records) {
    join_row(connection, table_named("workloads"), 1, workload_row(record));
    join_row(connection, table_named("targets"), 1, target_row(record.target));
    join_row(connection, table_named("records"), 1, record_row(record));
  }
  transaction.commit();
}

std::vector<std::string> columns_of(const fs::path& path, const std::string& table) {
  const Connection connection(path.string(), Connection::Access::Read, milliseconds(0));
  Statement statement(connection, "PRAGMA table_info(" + table + ")", "reading the columns");
  std::vector<std::string> names;
  while (statement.step()) names.push_back(std::get<std::string>(statement.cell(1)));
  return names;
}

TEST(Schema, HasTheColumnsOfItsDescription) {
  TempFolder folder;
  Store::open(folder / "a.db", Mode::Create);
  for (const Table* table : all_tables()) {
    std::set<std::string> expected = {"checksum"};
    for (const Column& column : table->columns) expected.insert(column.name);
    const auto found = columns_of(folder / "a.db", table->name);
    EXPECT_EQ(std::set<std::string>(found.begin(), found.end()), expected) << table->name;
  }
}

TEST(Migrate, TakesAnOldFileToTodaysSchema) {
  TempFolder folder;
  make_version_1(folder / "old.db", {sample_record(0), sample_record(1)});
  EXPECT_TRUE(columns_of(folder / "old.db", "models").empty());
  {
    Store store = Store::open(folder / "old.db", Mode::ReadWrite);
    EXPECT_EQ(store.schema_version(), kSchemaVersion);
    EXPECT_EQ(store.records().records.size(), 2u);
    EXPECT_TRUE(store.check().ok());
    Record confirmed = sample_record(2);
    confirmed.confirmed = true;
    store.insert(confirmed);
    store.put_model(sample_model(1));
  }
  const Store again = Store::open(folder / "old.db", Mode::ReadOnly);
  const RecordList list = again.records();
  ASSERT_EQ(list.records.size(), 3u);
  EXPECT_EQ(list.records[0].config, sample_record(0).config);
  EXPECT_FALSE(list.records[0].confirmed);
  EXPECT_TRUE(list.records[2].confirmed);
}

TEST(Migrate, LeavesAnOldFileAloneWhenReading) {
  TempFolder folder;
  make_version_1(folder / "old.db", {sample_record(0), sample_record(1)});
  const std::string before = read_file(folder / "old.db");
  {
    const Store store = Store::open(folder / "old.db", Mode::ReadOnly);
    EXPECT_EQ(store.schema_version(), 1);
    EXPECT_EQ(store.records({.by_time = true}).records.size(), 2u);
    BestQuery query = query_for(sample_record(0));
    query.need_artifact = false;
    ASSERT_TRUE(store.best(query).record);
    EXPECT_EQ(store.best(query).record->config, sample_record(0).config);
    EXPECT_EQ(store.model("t", "xgboost", 1).miss,
              "the xgboost model of feature version 1 for this target is missing: the schema is "
              "too old");
    EXPECT_TRUE(store.check().ok());
    EXPECT_EQ(store.info().schema_version, 1);
    EXPECT_EQ(store.info().rows.count("models"), 0u);
  }
  EXPECT_EQ(read_file(folder / "old.db"), before);
}

// A file of schema version 2.
TEST(Migrate, AFileWithoutDispatchTablesIsReadAsItIs) {
  TempFolder folder;
  {
    const Connection connection((folder / "old.db").string(), Connection::Access::Create,
                                milliseconds(0));
    SqlTransaction transaction(connection, SqlTransaction::Kind::Write);
    create_schema(connection, 2);
    const Record record = sample_record(0);
    join_row(connection, table_named("workloads"), 2, workload_row(record));
    join_row(connection, table_named("targets"), 2, target_row(record.target));
    join_row(connection, table_named("records"), 2, record_row(record));
    transaction.commit();
  }
  const std::string before = read_file(folder / "old.db");
  {
    const Store store = Store::open(folder / "old.db", Mode::ReadOnly);
    EXPECT_EQ(store.dispatch(query_for(sample_record(0))).miss,
              "it has no dispatch tables: the database's schema is too old");
    EXPECT_TRUE(store.dispatch_tables().empty());
    EXPECT_TRUE(store.check().ok());
  }
  EXPECT_EQ(read_file(folder / "old.db"), before);
  Store store = Store::open(folder / "old.db", Mode::ReadWrite);
  const Record record = store.records().records.at(0);
  store.put_dispatch(sample_dispatch({record}));
  EXPECT_EQ(store.dispatch_tables().size(), 1u);
  EXPECT_TRUE(store.check().ok());
}

// A file of schema version 3: its records have no times at sizes, and can get some.
TEST(Migrate, RecordsGetTimesAtSizes) {
  TempFolder folder;
  Record timed = sample_record(1);
  timed.points = {{{{"m", 4}, {"n", 8}}, 1e-6}, {{{"m", 1}, {"n", 8}}, 2.5e-7}};
  {
    const Connection connection((folder / "old.db").string(), Connection::Access::Create,
                                milliseconds(0));
    SqlTransaction transaction(connection, SqlTransaction::Kind::Write);
    create_schema(connection, 3);
    const Record record = sample_record(0);
    join_row(connection, table_named("workloads"), 3, workload_row(record));
    join_row(connection, table_named("targets"), 3, target_row(record.target));
    join_row(connection, table_named("records"), 3, record_row(record));
    transaction.commit();
  }
  {
    const Store store = Store::open(folder / "old.db", Mode::ReadOnly);
    ASSERT_EQ(store.records().records.size(), 1u);
    EXPECT_TRUE(store.records().records[0].points.empty());
  }
  Store store = Store::open(folder / "old.db", Mode::ReadWrite);
  store.insert(timed);
  const RecordList list = store.records();
  ASSERT_EQ(list.records.size(), 2u);
  EXPECT_TRUE(list.records[0].points.empty());
  EXPECT_EQ(list.records[1].points, timed.points);
  Store imported = Store::open_in_memory();
  std::istringstream lines(content(store));
  EXPECT_TRUE(imported.import_jsonl(lines).bad.empty());
  EXPECT_EQ(imported.records().records.at(1).points, timed.points);
  Record endless = sample_record(2);
  endless.points = {{{{"m", 4}}, INFINITY}};
  EXPECT_EQ(record_error([&] { store.insert(endless); }),
            "the record's time at a size must be a finite time of at least 0, got inf");
  EXPECT_TRUE(store.check().ok());
}

TEST(Migrate, DoesNotMakeADamagedRowLookHealthy) {
  TempFolder folder;
  make_version_1(folder / "old.db", {sample_record(0), sample_record(1)});
  run_sql(folder / "old.db", "UPDATE records SET median_seconds = 1e-9 WHERE trial = 1");
  const Store store = Store::open(folder / "old.db", Mode::ReadWrite);
  const RecordList list = store.records();
  ASSERT_EQ(list.records.size(), 1u);
  EXPECT_EQ(list.records[0].trial, 0);
  EXPECT_EQ(list.skipped.size(), 1u);
}

TEST(Migrate, GivesTheSameContentAsMergingOrImporting) {
  TempFolder folder;
  make_version_1(folder / "old.db", {sample_record(0), sample_record(1)});
  Store merged = Store::open_in_memory();
  merged.merge(folder / "old.db");
  Store imported = Store::open_in_memory();
  std::istringstream lines(content(folder / "old.db"));
  EXPECT_TRUE(imported.import_jsonl(lines).bad.empty());
  const Store migrated = Store::open(folder / "old.db", Mode::ReadWrite);
  EXPECT_EQ(content(merged), content(migrated));
  EXPECT_EQ(content(imported), content(migrated));
}

TEST(Migrate, RefusesANewerSchema) {
  TempFolder folder;
  Store::open(folder / "a.db", Mode::Create);
  run_sql(folder / "a.db", "PRAGMA user_version=99");
  const std::string expected = "database '" + (folder / "a.db").string() +
                               "' has schema version 99, this tool knows versions up to 5: use "
                               "the newer tune-cli that wrote it, or import what that one exports "
                               "into a new database";
  const std::string before = read_file(folder / "a.db");
  for (const Mode mode : {Mode::ReadOnly, Mode::ReadWrite, Mode::Create}) {
    EXPECT_EQ(database_error(Kind::Newer, [&] { Store::open(folder / "a.db", mode); }), expected);
  }
  EXPECT_EQ(read_file(folder / "a.db"), before);
}

TEST(Migrate, DoesNotTrustAHeaderThatDisagreesWithTheMetaTable) {
  TempFolder folder;
  Store::open(folder / "a.db", Mode::Create);
  run_sql(folder / "a.db", "PRAGMA user_version=1");
  EXPECT_NE(database_error(Kind::Damaged, [&] { Store::open(folder / "a.db", Mode::ReadWrite); })
                .find("its header says schema version 1, its meta table 5"),
            std::string::npos);
  run_sql(folder / "a.db", "PRAGMA user_version=0");
  database_error(Kind::Damaged, [&] { Store::open(folder / "a.db", Mode::ReadWrite); });
}

}  // namespace
}  // namespace tilewright::database::testing
