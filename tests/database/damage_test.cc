// Files that were truncated, overwritten or flipped: a wrong row must never be returned.
#include <algorithm>
#include <random>

#include "tests/database/fixture.h"

namespace tilewright::database::testing {
namespace {

using Kind = DatabaseError::Kind;

TEST(Damage, NamesWhatIsNotADatabase) {
  TempFolder folder;
  database_error(Kind::NotFound, [&] { Store::open(folder / "none.db", Mode::ReadOnly); });
  EXPECT_EQ(
      database_error(Kind::NotFound, [&] { Store::open(folder / "none.db", Mode::ReadWrite); }),
      "there is no database '" + (folder / "none.db").string() + "'");
  EXPECT_FALSE(fs::exists(folder / "none.db"));
  EXPECT_EQ(
      database_error(Kind::Unwritable, [&] { Store::open(folder / "no/such.db", Mode::Create); }),
      "the database '" + (folder / "no/such.db").string() +
          "' cannot be made: there is no folder '" + (folder / "no").string() + "'; mkdir -p '" +
          (folder / "no").string() + "' makes it");
  EXPECT_EQ(database_error(Kind::NotFound, [&] { Store::open("", Mode::Create); }),
            "the name of the database is empty");
  for (const Mode mode : {Mode::ReadOnly, Mode::ReadWrite, Mode::Create}) {
    database_error(Kind::NotADatabase, [&] { Store::open(folder / "", mode); });
  }
}

TEST(Damage, LeavesAFileOfAnotherKindAlone) {
  TempFolder folder;
  for (const std::string& text : {std::string("hello"), std::string(9000, 'x')}) {
    write_file(folder / "text", text);
    for (const Mode mode : {Mode::ReadOnly, Mode::ReadWrite, Mode::Create}) {
      EXPECT_NE(database_error(Kind::NotADatabase, [&] { Store::open(folder / "text", mode); })
                    .find("is not a SQLite database"),
                std::string::npos);
    }
    EXPECT_EQ(read_file(folder / "text"), text);
  }
}

TEST(Damage, LeavesAnotherProgramsDatabaseAlone) {
  TempFolder folder;
  run_sql(folder / "other.db", "CREATE TABLE records (id TEXT)");
  const std::string before = read_file(folder / "other.db");
  for (const Mode mode : {Mode::ReadOnly, Mode::ReadWrite, Mode::Create}) {
    EXPECT_NE(database_error(Kind::NotADatabase, [&] { Store::open(folder / "other.db", mode); })
                  .find("not one of Tilewright's"),
              std::string::npos);
  }
  EXPECT_EQ(read_file(folder / "other.db"), before);
}

TEST(Damage, OnlyCreateTakesAnEmptyFile) {
  TempFolder folder;
  write_file(folder / "a.db", "");
  for (const Mode mode : {Mode::ReadOnly, Mode::ReadWrite}) {
    EXPECT_NE(database_error(Kind::Damaged, [&] { Store::open(folder / "a.db", mode); })
                  .find("the file is empty"),
              std::string::npos);
  }
  Store::open(folder / "a.db", Mode::Create).insert(sample_record(0));
  EXPECT_EQ(Store::open(folder / "a.db", Mode::ReadOnly).records().records.size(), 1u);
}

// A database with several pages of each kind, its expected contents, and a reader of damaged
// copies.
class DamagedFile : public ::testing::Test {
 protected:
  void SetUp() override {
    Store store = Store::open(folder_ / "whole.db", Mode::Create);
    Transaction transaction = store.begin();
    for (int i = 0; i < 12; ++i) {
      Record record = sample_record(i, i % 3);
      record.reason = std::string(200, 'r');  // several records per page, several pages
      store_with_artifact(store, record);
    }
    store.put_artifact(sample_artifact(99, 30000));  // with overflow pages
    store.put_model(sample_model(1));
    store.put_model(sample_model(2));
    TuningRun run;
    run.args = "{}";
    store.begin_run(run);
    transaction.commit();
    for (const Record& record : store.records().records) records_[record.id] = record;
    for (const TuningRun& each : store.runs()) runs_[each.id] = each;
    for (const auto& [id, record] : records_) {
      artifacts_[record.artifact_hash] = *store.artifact(record.artifact_hash).value;
    }
    bytes_ = read_file(folder_ / "whole.db");
    std::istringstream lines(content(store));
    for (std::string line; std::getline(lines, line);) lines_.insert(line);
  }

  struct Outcome {
    bool refused = false;   // a DatabaseError while opening or reading
    bool reported = false;  // a row was skipped with a reason
  };

  // Reads everything in every possible way. All returned values must be those that were stored.
  Outcome read_all(const Store& store) const {
    Outcome outcome;
    outcome.reported |= !store.check().ok();
    each_read(outcome, [&] { read_records(store, outcome); });
    each_read(outcome, [&] { read_best(store, outcome); });
    each_read(outcome, [&] { read_others(store); });
    each_read(outcome, [&] { read_export(store, outcome); });
    return outcome;
  }

  Outcome read_all(const fs::path& path) const {
    Outcome outcome;
    each_read(outcome, [&] { outcome = read_all(Store::open(path, Mode::ReadOnly)); });
    return outcome;
  }

  TempFolder folder_;
  std::string bytes_;
  std::map<std::string, Record> records_;
  std::map<std::string, Artifact> artifacts_;
  std::map<std::string, TuningRun> runs_;
  std::set<std::string> lines_;

 private:
  static void note_refusal(const DatabaseError& error, Outcome& outcome) {
    outcome.refused = true;
    // A flipped bit in the header can look like a newer version or like no database at all.
    EXPECT_TRUE(error.kind() == Kind::Damaged || error.kind() == Kind::Newer ||
                error.kind() == Kind::NotADatabase)
        << error.what();
  }

  static void each_read(Outcome& outcome, const std::function<void()>& read) {
    try {
      read();
    } catch (const DatabaseError& error) {
      note_refusal(error, outcome);
    }
  }

  void expect_original(const Record& record) const {
    const auto original = records_.find(record.id);
    ASSERT_NE(original, records_.end()) << record.id;
    EXPECT_EQ(record, original->second);
  }

  void read_records(const Store& store, Outcome& outcome) const {
    const RecordList list = store.records();
    for (const Record& record : list.records) expect_original(record);
    outcome.reported |= !list.skipped.empty();
  }

  void read_best(const Store& store, Outcome& outcome) const {
    for (int workload = 0; workload < 3; ++workload) {
      const BestQuery query = query_for(sample_record(0, workload));
      const BestResult best = store.best(query);
      outcome.reported |= !best.skipped.empty();
      EXPECT_EQ(best.record.has_value(), best.miss.empty());
      if (!best.record) continue;
      expect_original(*best.record);
      EXPECT_EQ(best.record->workload_hash, query.workload_hash);
      ASSERT_TRUE(best.artifact);
      EXPECT_EQ(*best.artifact, artifacts_.at(best.record->artifact_hash));
    }
  }

  void read_others(const Store& store) const {
    for (const auto& [hash, original] : artifacts_) {
      const Lookup<Artifact> found = store.artifact(hash);
      if (found) {
        EXPECT_EQ(*found.value, original);
      }
    }
    for (const int version : {1, 2}) {
      const auto found = store.model(sample_target().hash, "xgboost", version);
      if (found) {
        EXPECT_EQ(*found.value, sample_model(version));
      }
    }
    for (const TuningRun& run : store.runs()) EXPECT_EQ(run, runs_.at(run.id));
  }

  void read_export(const Store& store, Outcome& outcome) const {
    std::ostringstream out;
    const ExportReport report = store.export_jsonl(out);
    outcome.reported |= !report.bad.empty() || !report.unreadable.empty();
    std::istringstream lines(out.str());
    for (std::string line; std::getline(lines, line);) EXPECT_TRUE(lines_.contains(line)) << line;
  }
};

TEST_F(DamagedFile, IsReadWhollyWhenWhole) {
  const Outcome outcome = read_all(folder_ / "whole.db");
  EXPECT_FALSE(outcome.refused);
  EXPECT_FALSE(outcome.reported);
}

TEST_F(DamagedFile, CutAnywhereIsRefused) {
  std::mt19937 random(1);
  // A file of a single byte counts as empty.
  std::vector<size_t> sizes = {2, 15, 99, 100, 511, 512, 4095, 4096, 4097, bytes_.size() - 1};
  for (int i = 0; i < 30; ++i) sizes.push_back(2 + random() % (bytes_.size() - 2));
  for (const size_t size : sizes) {
    SCOPED_TRACE("cut to " + std::to_string(size) + " bytes");
    write_file(folder_ / "cut.db", bytes_.substr(0, size));
    EXPECT_TRUE(read_all(folder_ / "cut.db").refused);
    for (const Mode mode : {Mode::ReadWrite, Mode::Create}) {
      EXPECT_THROW(Store::open(folder_ / "cut.db", mode), DatabaseError);
    }
  }
}

// Changes `count` random bytes of the database, each in one bit or entirely.
std::string scribble(std::string bytes, std::mt19937& random, int count) {
  for (int i = 0; i < count; ++i) {
    char& byte = bytes[random() % bytes.size()];
    const auto bits = static_cast<char>(random() % 255 + 1);
    byte = static_cast<char>(byte ^ (random() % 2 == 0 ? 1 << random() % 8 : bits));
  }
  return bytes;
}

TEST_F(DamagedFile, NeverGivesAWrongRow) {
  int refused = 0;
  int reported = 0;
  for (unsigned seed = 0; seed < 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    write_file(folder_ / "flip.db", scribble(bytes_, random, 1 + static_cast<int>(seed % 16)));
    const Outcome outcome = read_all(folder_ / "flip.db");
    refused += outcome.refused;
    reported += outcome.reported;
  }
  // The test is meaningful only if both kinds of detection occurred.
  EXPECT_GT(refused, 10);
  EXPECT_GT(reported, 100);
}

// The bytes of the first page matter most: headers, schema, the roots of the trees.
TEST_F(DamagedFile, NeverGivesAWrongRowWhenItsFirstPageIsHit) {
  std::mt19937 random(7);
  for (size_t at = 0; at < 4096 && !HasFailure(); at += 13) {
    SCOPED_TRACE("byte " + std::to_string(at));
    std::string bytes = bytes_;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
    write_file(folder_ / "flip.db", bytes);
    read_all(folder_ / "flip.db");
  }
}

TEST_F(DamagedFile, NeverTakesInAWrongRowWhenWritingOrMerging) {
  for (unsigned seed = 1000; seed < 1060 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    write_file(folder_ / "flip.db", scribble(bytes_, random, 1 + static_cast<int>(seed % 8)));
    try {
      Store store = Store::open(folder_ / "flip.db", Mode::ReadWrite);
      store.insert(records_.begin()->second);  // already stored, unless it was hit
      store.prune({.keep_best = 100, .keep_failures = true});
    } catch (const Error&) {
      // An error is allowed; the rows read back must be right.
    }
    read_all(folder_ / "flip.db");
    Store merged = Store::open_in_memory();
    try {
      merged.merge(folder_ / "flip.db");
    } catch (const DatabaseError&) {
      continue;
    }
    read_all(merged);
  }
}

TEST_F(DamagedFile, IsHealedByMergingItsWholeCopy) {
  std::mt19937 random(3);
  run_sql(folder_ / "whole.db", "VACUUM");
  const std::string expected = content(folder_ / "whole.db");
  fs::copy_file(folder_ / "whole.db", folder_ / "hit.db");
  run_sql(folder_ / "hit.db",
          "UPDATE records SET seed = seed + 1; UPDATE artifacts SET source = ''");
  Store store = Store::open(folder_ / "hit.db", Mode::ReadWrite);
  EXPECT_TRUE(store.records().records.empty());
  store.merge(folder_ / "whole.db");
  EXPECT_EQ(content(store), expected);
}

TEST_F(DamagedFile, CheckNamesEachBadRow) {
  run_sql(folder_ / "whole.db",
          "UPDATE records SET seed = seed + 1 WHERE trial = 3;"
          "UPDATE workloads SET canonical = 'x' WHERE canonical LIKE '%m=128 %';"
          "UPDATE models SET checksum = 0 WHERE feature_version = 2;"
          "DELETE FROM artifacts WHERE hash = (SELECT artifact_hash FROM records WHERE trial = 0)");
  const Store store = Store::open(folder_ / "whole.db", Mode::ReadOnly);
  const CheckReport report = store.check();
  EXPECT_FALSE(report.ok());
  EXPECT_TRUE(report.structure.empty());
  std::multiset<std::string> bad;
  for (const BadRow& row : report.rows) bad.insert(row.table + ": " + row.problem);
  EXPECT_EQ(bad, (std::multiset<std::string>{"models: the checksum does not match",
                                             "records: the checksum does not match",
                                             "workloads: the checksum does not match"}));
  EXPECT_EQ(report.dangling.size(), 5u);  // four records of the workload, one without artifact
  EXPECT_EQ(report.checked.at("records"), 12);
  EXPECT_EQ(report.checked.at("meta"), 1);
}

// A row may be forged together with its checksum; the artifact's name still reveals it.
TEST_F(DamagedFile, CheckComparesArtifactsWithTheirNames) {
  const Record& record = records_.begin()->second;
  {
    Store store = Store::open(folder_ / "forged.db", Mode::Create);
    store.put_artifact(sample_artifact(50));
  }
  run_sql(folder_ / "forged.db", "UPDATE artifacts SET hash = '" + record.artifact_hash + "'");
  const CheckReport report = Store::open(folder_ / "forged.db", Mode::ReadOnly).check();
  ASSERT_EQ(report.rows.size(), 1u);
}

TEST_F(DamagedFile, CheckReportsABrokenTreeWithoutThrowing) {
  std::string bytes = bytes_;
  std::fill(bytes.begin() + 8 * 4096, bytes.begin() + 10 * 4096, '\xaa');
  write_file(folder_ / "hole.db", bytes);
  const Store store = Store::open(folder_ / "hole.db", Mode::ReadOnly);
  EXPECT_FALSE(store.check().structure.empty());
}

}  // namespace
}  // namespace tilewright::database::testing
