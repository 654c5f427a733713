#include "database/store.h"

#include <limits>

#include "tests/database/fixture.h"

namespace tilewright::database::testing {
namespace {

using Kind = DatabaseError::Kind;

TEST(Store, GivesBackARecordAsItWas) {
  TempFolder folder;
  Record valid = sample_record(1);
  valid.is_default = true;
  valid.confirmed = true;
  Record failure = sample_failure(2, Verdict::Timeout, "killed after 10 s");
  {
    Store store = Store::open(folder / "a.db", Mode::Create);
    valid = store_with_artifact(store, valid);
    failure.id = store.insert(failure);
  }
  const Store store = Store::open(folder / "a.db", Mode::ReadOnly);
  const RecordList list = store.records();
  ASSERT_EQ(list.records.size(), 2u);
  valid.best_seconds = 2.2e-3 / 3;
  valid.best_seconds = valid.samples[2];
  valid.median_seconds = valid.samples[0];
  EXPECT_EQ(list.records[0], valid);
  EXPECT_EQ(list.records[1], failure);
  EXPECT_TRUE(list.skipped.empty());
}

TEST(Store, TakesTheMedianOfAnEvenNumberOfSamplesBetweenTheMiddleTwo) {
  Store store = Store::open_in_memory();
  Record record = sample_record(0);
  record.samples = {4, 1, 3, 2};
  store.insert(record);
  const Record stored = store.records().records.at(0);
  EXPECT_EQ(stored.best_seconds, 1);
  EXPECT_EQ(stored.median_seconds, 2.5);
}

TEST(Store, KeepsTimesThatTheCallerComputed) {
  Store store = Store::open_in_memory();
  Record record = sample_record(0);
  record.best_seconds = 0.5;
  record.median_seconds = 0.75;
  store.insert(record);
  EXPECT_EQ(store.records().records.at(0).best_seconds, 0.5);
  EXPECT_EQ(store.records().records.at(0).median_seconds, 0.75);
}

TEST(Store, StoresTheSameRecordOnce) {
  Store store = Store::open_in_memory();
  const std::string first = store.insert(sample_record(1));
  EXPECT_EQ(store.insert(sample_record(1)), first);
  EXPECT_NE(store.insert(sample_record(2)), first);
  EXPECT_EQ(store.records().records.size(), 2u);
}

TEST(Store, StoresABatchWholly) {
  Store store = Store::open_in_memory();
  const std::vector<Record> good = {sample_record(0), sample_record(1)};
  EXPECT_EQ(store.insert(good).size(), 2u);
  std::vector<Record> bad = {sample_record(2), sample_record(3)};
  bad[1].config = "not json";
  record_error([&] { store.insert(bad); });
  EXPECT_EQ(store.records().records.size(), 2u);
}

TEST(Store, RollsBackATransactionThatIsNotCommitted) {
  TempFolder folder;
  Store store = Store::open(folder / "a.db", Mode::Create);
  {
    const Transaction transaction = store.begin();
    store_with_artifact(store, sample_record(1));
    EXPECT_EQ(store.records().records.size(), 1u);
  }
  EXPECT_TRUE(store.records().records.empty());
  {
    Transaction transaction = store.begin();
    store_with_artifact(store, sample_record(1));
    transaction.commit();
  }
  EXPECT_EQ(content(folder / "a.db"), content(store));
  EXPECT_EQ(store.records().records.size(), 1u);
}

TEST(Store, FindsRecordsByWhatTheyAre) {
  Store store = Store::open_in_memory();
  Record other_workload = sample_record(1, 1);
  Record other_op = sample_record(2, 2);
  other_op.op = "conv2d";
  other_op.run_id = "run-b";
  Record other_target = sample_record(3);
  other_target.target = sample_target("Golden Cove");
  store.insert(std::vector<Record>{sample_record(0), other_workload, other_op, other_target,
                                   sample_failure(4, Verdict::Wrong, "differs at [0, 3]")});
  const auto trials = [&](const RecordFilter& filter) {
    std::vector<int> found;
    for (const Record& record : store.records(filter).records) found.push_back(record.trial);
    return found;
  };
  const std::string workload = sample_record(0).workload_hash;
  EXPECT_EQ(trials({}), (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(trials({.workload_hash = workload}), (std::vector<int>{0, 3, 4}));
  EXPECT_EQ(trials({.workload_hash = workload, .target_hash = sample_target().hash}),
            (std::vector<int>{0, 4}));
  EXPECT_EQ(trials({.op = "conv2d"}), (std::vector<int>{2}));
  EXPECT_EQ(trials({.run_id = "run-b"}), (std::vector<int>{2}));
  EXPECT_EQ(trials({.verdict = Verdict::Wrong}), (std::vector<int>{4}));
  EXPECT_EQ(trials({.op = "softmax"}), (std::vector<int>{}));
  EXPECT_EQ(trials({.verdict = Verdict::Valid, .by_time = true, .limit = 2}),
            (std::vector<int>{0, 1}));
}

TEST(Store, CountsFailuresByCauseAndReason) {
  Store store = Store::open_in_memory();
  store.insert(sample_record(0));
  store.insert(sample_failure(1, Verdict::Illegal, "split: 7 does not divide 64\nfor i …"));
  store.insert(sample_failure(2, Verdict::Illegal, "split: 7 does not divide 64\nfor j …"));
  store.insert(sample_failure(3, Verdict::RuntimeError, "signal 11"));
  const Record any = sample_record(0);
  const FailureCounts counts = store.failures(any.workload_hash, any.target.hash);
  EXPECT_EQ(counts.by_verdict,
            (std::map<Verdict, int64_t>{{Verdict::Illegal, 2}, {Verdict::RuntimeError, 1}}));
  EXPECT_EQ(counts.by_reason,
            (std::map<std::string, int64_t>{{"split: 7 does not divide 64", 2}, {"signal 11", 1}}));
  EXPECT_TRUE(store.failures(any.workload_hash, "another").by_verdict.empty());
}

TEST(Store, KnowsWhatWasTriedButNotWhatWasOnlyRanked) {
  Store store = Store::open_in_memory();
  store.insert(sample_record(0));
  store.insert(sample_failure(1, Verdict::Wrong, "differs"));
  Record offline = sample_record(2);
  offline.offline = true;
  store.insert(offline);
  const Record any = sample_record(0);
  const std::set<TriedConfig> expected = {{any.sketch, 3, any.config},
                                          {any.sketch, 3, sample_record(1).config}};
  EXPECT_EQ(store.tried(any.workload_hash, any.target.hash), expected);
}

TEST(Store, ListsTheWorkloadsOfAnOperatorWithTheirBest) {
  Store store = Store::open_in_memory();
  Record offline = sample_record(5);
  offline.offline = true;
  offline.median_seconds = 1e-9;
  store.insert(std::vector<Record>{sample_record(3), sample_record(1), sample_record(2, 1), offline,
                                   sample_failure(4, Verdict::Wrong, "differs")});
  Record conv = sample_record(0, 2);
  conv.op = "conv2d";
  store.insert(conv);
  const auto found = store.workloads("matmul", sample_target().hash);
  ASSERT_EQ(found.size(), 2u);
  const WorkloadSummary& two =
      found[0].hash == sample_record(0).workload_hash ? found[0] : found[1];
  EXPECT_EQ(two.canonical, sample_record(0).workload_canonical);
  EXPECT_EQ(two.label, "qkv");
  EXPECT_EQ(two.records, 4);
  EXPECT_EQ(two.valid, 2);
  EXPECT_DOUBLE_EQ(two.best_seconds, sample_record(1).samples[0]);
  EXPECT_EQ(store.workloads().size(), 3u);
  EXPECT_TRUE(store.workloads("matmul", "another").empty());
}

TEST(Store, KeepsArtifactsUnderTheHashOfTheirContent) {
  Store store = Store::open_in_memory();
  Artifact artifact = sample_artifact(1);
  artifact.hash = store.put_artifact(artifact);
  EXPECT_EQ(store.put_artifact(artifact), artifact.hash);
  EXPECT_EQ(store.info().rows.at("artifacts"), 1);
  EXPECT_EQ(store.artifact(artifact.hash).value, artifact);

  Artifact other_meaning = artifact;
  other_meaning.description = R"({"symbol": "another"})";
  EXPECT_NE(store.put_artifact(other_meaning), artifact.hash);

  const Lookup<Artifact> missing = store.artifact("00");
  EXPECT_FALSE(missing);
  EXPECT_EQ(missing.miss, "the row of 00 in table artifacts is missing");
}

TEST(Store, ReplacesTheModelOfATargetAndFeatureVersion) {
  Store store = Store::open_in_memory();
  store.put_model(sample_model(1));
  Model better = sample_model(1);
  better.trained_on = 500;
  better.bytes = sample_artifact(9, 10).bytes;
  better.created += 1;
  store.put_model(better);
  EXPECT_EQ(store.model(better.target_hash, "xgboost", 1).value, better);
  EXPECT_EQ(store.model(better.target_hash, "xgboost", 2).miss,
            "the xgboost model of feature version 2 for this target is missing");
}

TEST(Store, RemembersWhichRunWasNotFinished) {
  Store store = Store::open_in_memory();
  EXPECT_EQ(store.last_unfinished_run().miss, "no run was interrupted");
  TuningRun run;
  run.seed = ~0ull;
  run.args = R"({"trials": 64})";
  run.target_hash = "t";
  run.tool_version = "0.1.0";
  const std::string first = store.begin_run(run);
  const std::string second = store.begin_run(run);
  EXPECT_NE(first, second);
  store.set_run_state(second, RunState::Finished);
  ASSERT_TRUE(store.last_unfinished_run());
  EXPECT_EQ(store.last_unfinished_run().value->id, first);
  EXPECT_EQ(store.last_unfinished_run().value->seed, ~0ull);
  EXPECT_EQ(store.last_unfinished_run().value->args, run.args);
  store.set_run_state(first, RunState::Interrupted);
  EXPECT_EQ(store.last_unfinished_run().value->state, RunState::Interrupted);
  store.set_run_state(first, RunState::Failed);
  EXPECT_FALSE(store.last_unfinished_run());
  EXPECT_EQ(store.runs().size(), 2u);
  EXPECT_EQ(record_error([&] { store.set_run_state("none", RunState::Failed); }),
            "the row of none in table runs is missing");
}

TEST(Store, ARunsArgumentsMayChange) {
  Store store = Store::open_in_memory();
  const std::string id =
      store.begin_run({.args = "{}", .target_hash = "t", .tool_version = "0.1.0"});
  const TuningRun before = *store.run(id).value;
  store.set_run_args(id, R"({"findings": {}})");
  const TuningRun after = *store.run(id).value;
  EXPECT_EQ(after.args, R"({"findings": {}})");
  EXPECT_EQ(after.state, RunState::Running);
  EXPECT_GT(after.updated, before.updated) << "a merge keeps the later row";
  EXPECT_TRUE(store.check().ok());
  EXPECT_NE(record_error([&] { store.set_run_args(id, "no object"); }), "");
  EXPECT_EQ(store.run(id).value->args, after.args);
}

TEST(Store, TellsWhatItHolds) {
  TempFolder folder;
  Store store = Store::open(folder / "a.db", Mode::Create);
  store_with_artifact(store, sample_record(0));
  Record other = sample_record(1, 1);
  other.tool_version = "0.2.0";
  store.insert(other);
  const Info info = store.info();
  EXPECT_EQ(info.path, (folder / "a.db").string());
  EXPECT_EQ(info.schema_version, kSchemaVersion);
  EXPECT_EQ(info.bytes, static_cast<int64_t>(fs::file_size(folder / "a.db")));
  EXPECT_EQ(info.rows, (std::map<std::string, int64_t>{{"artifacts", 1},
                                                       {"dispatch", 0},
                                                       {"models", 0},
                                                       {"records", 2},
                                                       {"runs", 0},
                                                       {"signatures", 0},
                                                       {"targets", 1},
                                                       {"workloads", 2}}));
  EXPECT_EQ(info.workloads.size(), 2u);
  ASSERT_EQ(info.targets.size(), 1u);
  EXPECT_EQ(info.targets[0], sample_target());
  EXPECT_EQ(info.tool_versions, (std::vector<std::string>{"0.1.0", "0.2.0"}));
  EXPECT_TRUE(info.bad.empty());
}

TEST(Store, MendsTextThatIsNotUtf8InReasons) {
  Store store = Store::open_in_memory();
  store.insert(sample_failure(0, Verdict::CompileError, "error: stray '\xe2' in program"));
  EXPECT_EQ(store.records().records.at(0).reason, "error: stray '\xef\xbf\xbd' in program");
}

TEST(Store, RefusesWhatCannotBeTrue) {
  Store store = Store::open_in_memory();
  const auto refusal = [&](const std::function<void(Record&)>& spoil) {
    Record record = sample_record(0);
    spoil(record);
    return record_error([&] { store.insert(record); });
  };
  EXPECT_EQ(refusal([](Record& r) { r.workload_hash = ""; }),
            "the record's workload hash is empty");
  EXPECT_EQ(refusal([](Record& r) { r.workload_canonical = ""; }),
            "the record's workload is empty");
  EXPECT_EQ(refusal([](Record& r) { r.op = ""; }), "the record's operator is empty");
  EXPECT_EQ(refusal([](Record& r) { r.target.hash = ""; }), "the record's target hash is empty");
  EXPECT_EQ(refusal([](Record& r) { r.target.chip = "\xff"; }),
            "the target's chip is not valid UTF-8");
  EXPECT_EQ(refusal([](Record& r) { r.sketch = ""; }), "the record's sketch is empty");
  EXPECT_EQ(refusal([](Record& r) { r.config = "[1]"; }),
            "the record's config must be a JSON object, got '[1]'");
  EXPECT_EQ(refusal([](Record& r) { r.label = "\xff"; }), "the record's label is not valid UTF-8");
  EXPECT_EQ(refusal([](Record& r) { r.threads = 0; }),
            "the record's threads must be at least 1, got 0");
  EXPECT_EQ(refusal([](Record& r) { r.samples[1] = std::numeric_limits<double>::quiet_NaN(); }),
            "sample 1 of the record must be a finite time of at least 0, got nan");
  EXPECT_EQ(refusal([](Record& r) { r.median_seconds = -1; }),
            "the record's median time must be a finite time of at least 0, got -1.000000");
  EXPECT_EQ(refusal([](Record& r) { r.samples.clear(); }),
            "a valid record needs samples, unless it is marked as offline");
  EXPECT_EQ(refusal([](Record& r) { r.verdict = Verdict::Wrong; }),
            "a failed record needs a reason");
  EXPECT_TRUE(store.records().records.empty());
}

TEST(Store, RefusesArtifactsModelsAndRunsWithoutContent) {
  Store store = Store::open_in_memory();
  Artifact artifact = sample_artifact(0);
  artifact.bytes.clear();
  EXPECT_EQ(record_error([&] { store.put_artifact(artifact); }), "the artifact has no bytes");
  artifact = sample_artifact(0);
  artifact.description = "";
  EXPECT_EQ(record_error([&] { store.put_artifact(artifact); }),
            "the artifact's description must be a JSON object, got ''");
  Model model = sample_model(0);
  model.bytes.clear();
  EXPECT_EQ(record_error([&] { store.put_model(model); }), "the model has no bytes");
  TuningRun run;
  run.args = "--trials 64";
  EXPECT_EQ(record_error([&] { store.begin_run(run); }),
            "the run's arguments must be a JSON object, got '--trials 64'");
}

TEST(Store, RefusesOneHashForTwoTexts) {
  Store store = Store::open_in_memory();
  store.insert(sample_record(0));
  Record other = sample_record(1);
  other.workload_canonical = "another";
  EXPECT_EQ(record_error([&] { store.insert(other); }),
            "the hash " + other.workload_hash +
                " in table workloads already names another text: a hash must be made from the "
                "canonical text");
}

// Write-ahead logs need shared memory, which network disks lack.
TEST(Store, SwitchesAWriteAheadLogOff) {
  TempFolder folder;
  Store::open(folder / "a.db", Mode::Create).insert(sample_record(0));
  run_sql(folder / "a.db", "PRAGMA journal_mode=WAL");
  const auto written_for_wal = [&] { return read_file(folder / "a.db")[18] == 2; };
  ASSERT_TRUE(written_for_wal());
  EXPECT_EQ(Store::open(folder / "a.db", Mode::ReadWrite).records().records.size(), 1u);
  EXPECT_FALSE(written_for_wal());
}

// A file from elsewhere may carry code, such as a trigger that changes what is stored.
TEST(Store, DoesNotRunTriggersOfTheFile) {
  TempFolder folder;
  Store::open(folder / "a.db", Mode::Create);
  run_sql(folder / "a.db",
          "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END");
  Store store = Store::open(folder / "a.db", Mode::ReadWrite);
  store.insert(sample_record(0));
  EXPECT_EQ(store.records().records.size(), 1u);
}

TEST(Store, RefusesToWriteWhenOpenedForReading) {
  TempFolder folder;
  Store::open(folder / "a.db", Mode::Create);
  Store store = Store::open(folder / "a.db", Mode::ReadOnly);
  const std::string expected =
      "database '" + (folder / "a.db").string() + "' was opened for reading only";
  EXPECT_EQ(database_error(Kind::Unwritable, [&] { store.insert(sample_record(0)); }), expected);
  EXPECT_EQ(database_error(Kind::Unwritable, [&] { const Transaction none = store.begin(); }),
            expected);
  EXPECT_EQ(database_error(Kind::Unwritable, [&] { store.prune({}); }), expected);
}

}  // namespace
}  // namespace tilewright::database::testing
