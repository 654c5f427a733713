#include "database/dispatch.h"

#include "tests/database/fixture.h"

namespace tilewright::database::testing {
namespace {

// Three kernels of one workload, the last one the untuned default, and a table of the first two.
class Dispatch : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 3; ++i) {
      Record record = sample_record(i);
      record.is_default = i == 2;
      records_.push_back(store_with_artifact(store_, record));
    }
    table_ = sample_dispatch({records_[0], records_[1]});
    table_.default_record = records_[2].id;
  }

  BestQuery query() const { return query_for(records_[0]); }

  std::string refusal(const std::function<void(DispatchTable&)>& spoil) {
    DispatchTable table = table_;
    spoil(table);
    return record_error([&] { store_.put_dispatch(table); });
  }

  TempFolder folder_;
  Store store_ = Store::open(folder_ / "a.db", Mode::Create);
  std::vector<Record> records_;
  DispatchTable table_;
};

TEST_F(Dispatch, ComesBackWithItsKernels) {
  table_.one_order = true;
  store_.put_dispatch(table_);
  const DispatchResult found = store_.dispatch(query());
  ASSERT_TRUE(found.table) << found.miss;
  EXPECT_EQ(*found.table, table_);
  ASSERT_EQ(found.kernels.size(), 2u);
  for (const int64_t size : {1, 2, 31, 32, 33, 64}) {
    const Record& expected = records_[size <= 32 ? 0 : 1];
    ASSERT_NE(found.kernel_at({{"m", size}}), nullptr) << size;
    EXPECT_EQ(found.kernel_at({{"m", size}})->record.id, expected.id) << size;
    EXPECT_EQ(found.kernel_at({{"m", size}})->record.config, expected.config) << size;
    EXPECT_EQ(found.kernel_at({{"m", size}})->artifact->bytes,
              sample_artifact(expected.trial).bytes);
  }
  EXPECT_EQ(found.kernel_at({{"m", 0}}), nullptr);
  EXPECT_EQ(found.kernel_at({{"m", 65}}), nullptr);
  EXPECT_EQ(store_.dispatch_tables(), std::vector{table_});
}

TEST_F(Dispatch, TheBestAtASizeIsWhatTheTableSays) {
  const BestResult before = store_.best_at(query(), {{"m", 40}});
  ASSERT_TRUE(before.record);
  EXPECT_EQ(before.record->id, store_.best(query()).record->id);
  EXPECT_FALSE(before.range);
  store_.put_dispatch(table_);
  const BestResult small = store_.best_at(query(), {{"m", 7}}),
                   large = store_.best_at(query(), {{"m", 40}});
  EXPECT_EQ(small.record->id, records_[0].id);
  EXPECT_EQ(small.range, table_.ranges[0]);
  EXPECT_EQ(large.record->id, records_[1].id);
  EXPECT_EQ(large.range, table_.ranges[1]);
  EXPECT_TRUE(large.artifact);
  EXPECT_FALSE(store_.best_at(query(), {{"m", 65}}).range) << "outside the table";
}

TEST_F(Dispatch, ALaterTableTakesThePlaceOfAnEarlierOne) {
  store_.put_dispatch(table_);
  const DispatchTable later = sample_dispatch({records_[2]}, 5);
  store_.put_dispatch(later);
  EXPECT_EQ(store_.dispatch_tables(), std::vector{later});
}

TEST_F(Dispatch, SaysWhyThereIsNone) {
  EXPECT_EQ(store_.dispatch(query()).miss, "no dispatch table was learnt for it");
  store_.put_dispatch(table_);
  BestQuery asked = query();
  asked.threads = 2;
  EXPECT_EQ(store_.dispatch(asked).miss, "its dispatch table was learnt for 1 thread, not for 2");
  run_sql(folder_ / "a.db",
          "DELETE FROM artifacts WHERE hash = '" + records_[1].artifact_hash + "'");
  EXPECT_EQ(store_.dispatch(query()).miss, "its artifact cannot be used: the row of " +
                                               records_[1].artifact_hash +
                                               " in table artifacts is missing");
  asked = query();
  asked.need_artifact = false;
  EXPECT_TRUE(store_.dispatch(asked).table);
  run_sql(folder_ / "a.db", "DELETE FROM records WHERE id = '" + records_[1].id + "'");
  EXPECT_EQ(store_.dispatch(asked).miss,
            "the row of " + records_[1].id + " in table records is missing");
}

TEST_F(Dispatch, ADamagedTableIsAMissAndCheckSaysSo) {
  store_.put_dispatch(table_);
  run_sql(folder_ / "a.db", "UPDATE dispatch SET ranges = replace(ranges, '32', '16')");
  const DispatchResult found = store_.dispatch(query());
  EXPECT_FALSE(found.table);
  ASSERT_EQ(found.skipped.size(), 1u);
  EXPECT_EQ(found.miss, "its dispatch table is damaged: " + to_string(found.skipped[0]));
  EXPECT_EQ(found.skipped[0].problem, "the checksum does not match");
  const CheckReport report = store_.check();
  ASSERT_EQ(report.rows.size(), 1u);
  EXPECT_EQ(report.rows[0].table, "dispatch");
  EXPECT_EQ(report.checked.at("dispatch"), 1);
}

TEST_F(Dispatch, CheckFindsATableOfMissingRecords) {
  store_.put_dispatch(table_);
  EXPECT_TRUE(store_.check().ok());
  run_sql(folder_ / "a.db", "DELETE FROM records WHERE id = '" + records_[2].id + "'");
  const CheckReport report = store_.check();
  ASSERT_EQ(report.dangling.size(), 1u);
  EXPECT_EQ(report.dangling[0].table, "dispatch");
  EXPECT_EQ(report.dangling[0].problem,
            "its row " + records_[2].id + " in table records is missing or damaged");
}

TEST_F(Dispatch, RefusesWhatIsNoTable) {
  using Table = DispatchTable;
  EXPECT_EQ(refusal([](Table& t) { t.ranges.clear(); }), "the dispatch table has no ranges");
  EXPECT_EQ(refusal([](Table& t) { t.ranges[1].first["m"] = 34; }),
            "the dispatch table has range 34..64 where one from 33 on was expected");
  EXPECT_EQ(refusal([](Table& t) { t.ranges[0].first["m"] = 40; }),
            "the dispatch table has the empty range 40..32");
  EXPECT_EQ(refusal([](Table& t) { t.ranges[0].record.clear(); }),
            "the dispatch table names no record for range 1..32");
  EXPECT_EQ(refusal([](Table& t) { t.points[1].sizes["m"] = 65; }),
            "the dispatch table was measured at 65, which is outside 1..64");
  EXPECT_EQ(refusal([](Table& t) { t.points[1].sizes["m"] = 1; }),
            "the dispatch table has its measured points out of order at 1");
  EXPECT_EQ(refusal([](Table& t) { t.points[0].seconds.begin()->second = 0; }),
            "the dispatch table needs a finite time above 0 at 1, got 0.000000");
  EXPECT_EQ(refusal([](Table& t) { t.dims.clear(); }),
            "the dispatch table needs the name of a dimension");
  EXPECT_EQ(refusal([](Table& t) { t.dims = {"m n"}; }),
            "the dispatch table needs the names of its dimensions in UTF-8, without spaces");
  EXPECT_EQ(refusal([](Table& t) {
              t.dims = {"m", "m"};
            }),
            "the dispatch table names a dimension twice");
  EXPECT_EQ(refusal([](Table& t) {
              t.dims = {"m", "n"};
            }),
            "the dispatch table has a range that does not say where it begins and ends in each of "
            "its dimensions");
  EXPECT_EQ(refusal([](Table& t) { t.threads = 0; }),
            "the dispatch table needs at least 1 thread, got 0");
  EXPECT_EQ(refusal([](Table& t) { t.workload_hash.clear(); }),
            "the dispatch table names no workload");
  EXPECT_EQ(refusal([](Table& t) { t.target_hash.clear(); }), "the dispatch table names no target");
  EXPECT_EQ(refusal([](Table& t) { t.tool_version = "\xff"; }),
            "the dispatch table has a tool version that is not UTF-8");
  EXPECT_EQ(refusal([](Table& t) { t.ranges[0].record = "nobody"; }),
            "the dispatch table names a record that is not here: the row of nobody in table "
            "records is missing");
  EXPECT_EQ(refusal([](Table& t) { t.threads = 2; }),
            "the dispatch table names record " + records_of(table_).front() +
                ", which is of another workload, target or number of threads");
  EXPECT_TRUE(store_.dispatch_tables().empty());
}

// Three ranges of two dimensions; m alone separates the third one.
DispatchTable over_two_dims(DispatchTable table, const std::vector<Record>& records) {
  const auto at = [](int64_t m, int64_t n) { return Sizes{{"m", m}, {"n", n}}; };
  table.dims = {"n", "m"};
  table.ranges = {{at(1, 1), at(8, 32), records[0].id},
                  {at(1, 33), at(8, 512), records[1].id},
                  {at(9, 1), at(64, 512), records[0].id}};
  table.points = {{at(1, 1), false, {{records[0].id, 1e-6}}},
                  {at(64, 1), true, {{records[1].id, 2e-6}}},
                  {at(1, 2), false, {{records[1].id, 3e-6}}}};
  return table;
}

TEST_F(Dispatch, MayBeOfSeveralDimensions) {
  const DispatchTable table = over_two_dims(table_, records_);
  store_.put_dispatch(table);
  const DispatchResult found = store_.dispatch(query());
  ASSERT_TRUE(found.table) << found.miss;
  EXPECT_EQ(*found.table, table);
  EXPECT_EQ(found.kernel_at({{"m", 8}, {"n", 32}})->record.id, records_[0].id);
  EXPECT_EQ(found.kernel_at({{"m", 8}, {"n", 33}})->record.id, records_[1].id);
  EXPECT_EQ(found.kernel_at({{"m", 9}, {"n", 33}})->record.id, records_[0].id);
  EXPECT_EQ(found.kernel_at({{"m", 9}, {"n", 513}}), nullptr);
  EXPECT_EQ(found.kernel_at({{"m", 9}}), nullptr) << "of n nothing is known";
  EXPECT_EQ(store_.best_at(query(), {{"m", 1}, {"n", 40}}).range, table.ranges[1]);
  EXPECT_EQ(to_string(table.ranges[1]), "m=1..8, n=33..512");
  EXPECT_TRUE(store_.check().ok());
  Store other = Store::open_in_memory();
  std::istringstream in(content(store_));
  EXPECT_TRUE(other.import_jsonl(in).bad.empty());
  EXPECT_EQ(other.dispatch_tables(), std::vector{table});
}

TEST_F(Dispatch, RangesOfSeveralDimensionsAreABoxWithoutGaps) {
  const DispatchTable whole = over_two_dims(table_, records_);
  const auto refused = [&](const std::function<void(DispatchTable&)>& spoil) {
    DispatchTable table = whole;
    spoil(table);
    return record_error([&] { store_.put_dispatch(table); });
  };
  EXPECT_EQ(refused([](DispatchTable& t) { t.ranges[0].last["n"] = 31; }),
            "the dispatch table has no range for m=1..8, n=32..32");
  EXPECT_EQ(refused([](DispatchTable& t) { t.ranges[2].first["m"] = 8; }),
            "the dispatch table has range m=8..64, n=1..512, which overlaps m=1..8, n=1..32");
  EXPECT_EQ(refused([](DispatchTable& t) { t.ranges[2].first["m"] = 65; }),
            "the dispatch table has the empty range m=65..64, n=1..512");
  EXPECT_EQ(refused([](DispatchTable& t) { t.points[1].sizes["n"] = 513; }),
            "the dispatch table was measured at m=64, n=513, which is outside m=1..64, n=1..512");
  EXPECT_EQ(refused([](DispatchTable& t) { t.points[1].sizes.erase("n"); }),
            "the dispatch table was measured at 64, which does not say a size of each of its "
            "dimensions");
  EXPECT_EQ(refused([](DispatchTable& t) { std::swap(t.points[0], t.points[1]); }),
            "the dispatch table has its measured points out of order at m=1, n=1");
}

TEST_F(Dispatch, PruneKeepsWhatATableNames) {
  const Record surplus = store_with_artifact(store_, sample_record(7));
  store_.put_dispatch(table_);
  EXPECT_EQ(store_.prune({.keep_best = 1}).records, 1);
  EXPECT_FALSE(store_.record(surplus.id));
  EXPECT_TRUE(store_.dispatch(query()).table);
  EXPECT_TRUE(store_.check().ok());
}

TEST_F(Dispatch, PruneDropsATableThatNobodyCanUse) {
  store_.put_dispatch(table_);
  run_sql(folder_ / "a.db", "UPDATE records SET threads = 3 WHERE id = '" + records_[1].id + "'");
  EXPECT_EQ(store_.prune({}).damaged, 0);
  EXPECT_EQ(store_.prune({.drop_damaged = true}).damaged, 2) << "the record and the table";
  EXPECT_TRUE(store_.dispatch_tables().empty());
  EXPECT_TRUE(store_.check().ok());
}

TEST_F(Dispatch, GoesThroughAnExportAsItIs) {
  store_.put_dispatch(table_);
  const std::string lines = content(store_);
  EXPECT_NE(lines.find(R"({"table":"dispatch")"), std::string::npos);
  Store other = Store::open_in_memory();
  std::istringstream in(lines);
  EXPECT_TRUE(other.import_jsonl(in).bad.empty());
  EXPECT_EQ(content(other), lines);
  EXPECT_EQ(other.dispatch_tables(), std::vector{table_});
}

TEST_F(Dispatch, ARecordsIdIsKnownBeforeItIsStored) {
  EXPECT_EQ(content_hash(records_[0]), records_[0].id);
  Record timeless = records_[0];
  timeless.created = 0;
  EXPECT_EQ(record_error([&] { content_hash(timeless); }),
            "a record without its time has no id yet");
}

}  // namespace
}  // namespace tilewright::database::testing
