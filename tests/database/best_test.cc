#include "tests/database/fixture.h"

namespace tilewright::database::testing {
namespace {

TEST(Best, IsTheFastestWithItsArtifact) {
  Store store = Store::open_in_memory();
  store_with_artifact(store, sample_record(3));
  const Record fastest = store_with_artifact(store, sample_record(1));
  store_with_artifact(store, sample_record(2));
  const BestResult best = store.best(query_for(fastest));
  ASSERT_TRUE(best.record) << best.miss;
  EXPECT_EQ(best.record->id, fastest.id);
  EXPECT_EQ(best.record->workload_canonical, fastest.workload_canonical);
  EXPECT_EQ(best.record->target, fastest.target);
  ASSERT_TRUE(best.artifact);
  EXPECT_EQ(best.artifact->bytes, sample_artifact(1).bytes);
  EXPECT_EQ(best.miss, "");
}

TEST(Best, PrefersWhatWasMeasuredAgain) {
  Store store = Store::open_in_memory();
  Record confirmed = sample_record(2);
  confirmed.confirmed = true;
  confirmed = store_with_artifact(store, confirmed);
  store_with_artifact(store, sample_record(0));
  EXPECT_EQ(store.best(query_for(confirmed)).record->id, confirmed.id);
}

// Measured once with a lucky result, and again later beside a kernel that turned out faster.
TEST(Best, OfSeveralConfirmationsOfAKernelTheLatestCounts) {
  Store store = Store::open_in_memory();
  Record lucky = sample_record(0);
  lucky.confirmed = true;
  lucky.created = 1;
  lucky = store_with_artifact(store, lucky);
  Record rival = sample_record(1);
  rival.confirmed = true;
  rival.created = 2;
  rival = store_with_artifact(store, rival);
  EXPECT_EQ(store.best(query_for(lucky)).record->id, lucky.id);
  Record again = lucky;
  again.samples = {1};
  again.created = 3;
  store.insert(again);
  EXPECT_EQ(store.best(query_for(lucky)).record->id, rival.id);
}

TEST(Best, BreaksTiesByTheEarlierTrialWhateverTheOrderOfStoring) {
  for (const bool reversed : {false, true}) {
    Store store = Store::open_in_memory();
    Record early = sample_record(1);
    Record late = sample_record(2);
    late.samples = early.samples;
    for (const Record& each : reversed ? std::vector{late, early} : std::vector{early, late}) {
      store_with_artifact(store, each);
    }
    EXPECT_EQ(store.best(query_for(early)).record->trial, 1);
  }
}

TEST(Best, DependsOnTheNumberOfThreads) {
  Store store = Store::open_in_memory();
  store_with_artifact(store, sample_record(0));
  Record two = sample_record(1);
  two.threads = 2;
  two = store_with_artifact(store, two);
  BestQuery query = query_for(two);
  query.threads = 2;
  EXPECT_EQ(store.best(query).record->id, two.id);
  query.threads = 3;
  EXPECT_EQ(store.best(query).miss, "tuned for 1 thread, not for 3");
}

// The miss message when the only record is spoiled in one way.
std::string miss(const std::function<void(Record&)>& spoil,
                 const std::function<void(BestQuery&)>& ask = {}) {
  Store store = Store::open_in_memory();
  Record record = sample_record(0);
  BestQuery query = query_for(record);
  record.artifact_hash = store.put_artifact(sample_artifact(0));
  spoil(record);
  store.insert(record);
  if (ask) ask(query);
  const BestResult result = store.best(query);
  EXPECT_FALSE(result.record);
  EXPECT_FALSE(result.artifact);
  return result.miss;
}

TEST(Best, SaysWhyThereIsNone) {
  EXPECT_EQ(miss([](Record& r) { r.workload_hash = "w"; }),
            "never tuned: the database has no record of it");
  EXPECT_EQ(miss([](Record& r) { r.target = sample_target("Ice Lake"); }),
            "tuned for another chip: 'Ice Lake', this is 'Zen 4'");
  EXPECT_EQ(miss([](Record& r) { r.target = make_target("Zen 4", "avx2 fma", 2, "l3=32M"); }),
            "tuned for other instruction sets: 'avx2 fma', this is 'avx2 avx512f fma'");
  EXPECT_EQ(miss([](Record& r) { r.target = sample_target("Zen 4", 8); }),
            "tuned for another number of cores: '8', this is '2'");
  EXPECT_EQ(miss([](Record&) {}, [](BestQuery& q) { q.compiler_version = "gcc 13.1.0"; }),
            "made with another compiler: 'gcc 12.2.0', this is 'gcc 13.1.0'");
  EXPECT_EQ(miss([](Record&) {}, [](BestQuery& q) { q.tool_version = "9"; }),
            "made with another version of the tool: '0.1.0', this is '9'");
  EXPECT_EQ(miss([](Record&) {}, [](BestQuery& q) { q.driver_version = "560"; }),
            "made with another driver: 'none', this is '560'");
  EXPECT_EQ(miss([](Record& r) { r.offline = true; }), "ranked by the model only, never measured");
  EXPECT_EQ(miss([](Record& r) { r.artifact_hash = ""; }), "no artifact was kept for it");
  EXPECT_EQ(miss([](Record& r) { r.artifact_hash = "beef"; }),
            "its artifact cannot be used: the row of beef in table artifacts is missing");
  EXPECT_EQ(miss([](Record& r) {
              r.verdict = Verdict::Wrong;
              r.reason = "differs";
            }),
            "no valid candidate was found for it: 1 wrong");
}

TEST(Best, GivesTheRecordAloneWhenNoArtifactIsAskedFor) {
  Store store = Store::open_in_memory();
  Record record = sample_record(0);
  record.offline = true;
  store.insert(record);
  BestQuery query = query_for(record);
  query.need_artifact = false;
  query.allow_offline = true;
  EXPECT_TRUE(store.best(query).record);
}

TEST(Best, FallsBackToTheNextWhenTheFastestHasNoUsableArtifact) {
  TempFolder folder;
  Store store = Store::open(folder / "a.db", Mode::Create);
  const Record second = store_with_artifact(store, sample_record(1));
  const Record fastest = store_with_artifact(store, sample_record(0));
  run_sql(folder / "a.db",
          "UPDATE artifacts SET flags = '-O0' WHERE hash = '" + fastest.artifact_hash + "'");
  EXPECT_EQ(store.best(query_for(fastest)).record->id, second.id);
  EXPECT_EQ(store.artifact(fastest.artifact_hash).miss,
            "the row of " + fastest.artifact_hash +
                " in table artifacts is damaged: the checksum does not match");
}

TEST(Best, PassesOverDamagedRowsAndReportsThem) {
  TempFolder folder;
  Store store = Store::open(folder / "a.db", Mode::Create);
  const Record healthy = store_with_artifact(store, sample_record(4));
  const Record damaged = store_with_artifact(store, sample_record(5));
  run_sql(folder / "a.db",
          "UPDATE records SET median_seconds = 1e-9 WHERE id = '" + damaged.id + "'");
  const BestResult best = store.best(query_for(healthy));
  EXPECT_EQ(best.record->id, healthy.id);
  ASSERT_EQ(best.skipped.size(), 1u);
  EXPECT_EQ(to_string(best.skipped[0]),
            "records " + damaged.id + " (row 2): the checksum does not match");
  run_sql(folder / "a.db", "DELETE FROM records WHERE id = '" + healthy.id + "'");
  EXPECT_EQ(store.best(query_for(healthy)).miss, "its records are damaged: records " + damaged.id +
                                                     " (row 2): the checksum does not match");
}

TEST(Best, DoesNotUseARecordWhoseTargetIsDamaged) {
  TempFolder folder;
  Store store = Store::open(folder / "a.db", Mode::Create);
  const Record record = store_with_artifact(store, sample_record(0));
  run_sql(folder / "a.db", "UPDATE targets SET cores = 64");
  const BestResult best = store.best(query_for(record));
  EXPECT_FALSE(best.record);
  ASSERT_EQ(best.skipped.size(), 1u);
  EXPECT_EQ(best.skipped[0].problem,
            "the row of " + record.target.hash +
                " in table targets is damaged: the checksum does not match");
}

}  // namespace
}  // namespace tilewright::database::testing
