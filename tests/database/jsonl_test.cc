#include "tests/database/fixture.h"

namespace tilewright::database::testing {
namespace {

using Kind = DatabaseError::Kind;

Store full_store() {
  Store store = Store::open_in_memory();
  store_with_artifact(store, sample_record(0));
  store_with_artifact(store, sample_record(1, 1));
  Record odd = sample_failure(2, Verdict::CompileError, "line 1\nline \"2\"\t\\ é 𝄞");
  odd.seed = ~0ull;
  odd.samples = {0.1, 1.0 / 3, 5e-324, 1, 0};
  store.insert(odd);
  store.put_model(sample_model(3));
  TuningRun run;
  run.args = R"({"specs": ["matmul:m=1,n=2,k=3"]})";
  run.seed = 1ull << 63;
  store.begin_run(run);
  return store;
}

MergeReport import(Store& store, const std::string& text) {
  std::istringstream in(text);
  return store.import_jsonl(in);
}

TEST(Jsonl, RoundTripsExactly) {
  const Store store = full_store();
  const std::string text = content(store);
  Store copy = Store::open_in_memory();
  const MergeReport report = import(copy, text);
  EXPECT_TRUE(report.bad.empty());
  EXPECT_EQ(report.tables.at("records").added, 3);
  EXPECT_EQ(content(copy), text);
  EXPECT_EQ(copy.runs(), store.runs());
  EXPECT_EQ(copy.records({.by_time = true}).records, store.records({.by_time = true}).records);
  EXPECT_TRUE(copy.check().ok());
}

TEST(Jsonl, ImportingAgainChangesNothing) {
  Store store = full_store();
  const std::string text = content(store);
  EXPECT_EQ(import(store, text).tables.at("records"), (MergeReport::Counts{.same = 3}));
  EXPECT_EQ(content(store), text);
}

TEST(Jsonl, LeavesOutRowsWhoseChecksumDoesNotMatch) {
  Store store = Store::open_in_memory();
  store.insert(sample_record(0));
  std::string text = content(store);
  text.replace(text.find("\"threads\":1"), 11, "\"threads\":2");
  Store copy = Store::open_in_memory();
  const MergeReport report = import(copy, text);
  ASSERT_EQ(report.bad.size(), 1u);
  EXPECT_EQ(report.bad[0].row, 4);
  EXPECT_EQ(report.bad[0].problem, "the checksum does not match");
  EXPECT_TRUE(copy.records().records.empty());
}

TEST(Jsonl, LeavesOutDamagedRowsWhenExporting) {
  TempFolder folder;
  Store store = Store::open(folder / "a.db", Mode::Create);
  store.insert(sample_record(0));
  store.insert(sample_record(1));
  run_sql(folder / "a.db", "UPDATE records SET threads = 3 WHERE trial = 0");
  std::ostringstream out;
  const ExportReport report = store.export_jsonl(out);
  EXPECT_EQ(report.rows, 3);
  ASSERT_EQ(report.bad.size(), 1u);
  EXPECT_EQ(report.bad[0].table, "records");
  Store copy = Store::open_in_memory();
  import(copy, out.str());
  EXPECT_EQ(copy.records().records.size(), 1u);
}

TEST(Jsonl, SaysInWhichLineTheTextIsWrongAndImportsNothing) {
  const std::string text = content(full_store());
  const std::string header = text.substr(0, text.find('\n') + 1);
  const auto refusal = [&](const std::string& wrong) {
    Store store = Store::open_in_memory();
    const std::string message = record_error([&] { import(store, wrong); });
    EXPECT_TRUE(store.records().records.empty());
    EXPECT_EQ(store.info().rows.at("workloads"), 0);
    return message;
  };
  EXPECT_EQ(refusal(""), "the import is empty");
  EXPECT_EQ(refusal("{}\n"),
            "line 1: expected the header of an export, "
            "{\"format\":\"tilewright-database\",\"schema\":…}");
  EXPECT_EQ(refusal("table,id\n"), "line 1: expected a JSON object");
  EXPECT_EQ(refusal(text + "{\"table\": \"records\", \"id"), "line 12: expected a JSON object");
  EXPECT_EQ(refusal(header + "{\"id\": 1}\n"), "line 2: 'table' must be a string");
  EXPECT_EQ(refusal(header + "{\"table\": \"people\"}\n"),
            "line 2: unknown table 'people', expected one of workloads, targets, artifacts, runs, "
            "models, records, dispatch, signatures");
  EXPECT_EQ(refusal(header + "{\"table\": \"workloads\", \"hash\": \"a\"}\n"),
            "line 2: 'canonical' is missing from a row of table workloads");
  EXPECT_EQ(refusal(header + "{\"table\": \"workloads\", \"hash\": 3}\n"),
            "line 2: 'hash' must be a string");
  EXPECT_EQ(refusal(header + "{\"table\": \"artifacts\", \"hash\": \"a\", \"bytes\": \"?\"}\n"),
            "line 2: 'bytes' must be base64 text");
}

TEST(Jsonl, RefusesTheExportOfANewerTool) {
  Store store = Store::open_in_memory();
  EXPECT_EQ(
      database_error(Kind::Newer,
                     [&] { import(store, R"({"format": "tilewright-database", "schema": 7})"); }),
      "the export has schema version 7, this tool knows versions up to 5: import it with a "
      "newer tune-cli");
}

TEST(Jsonl, SaysWhenTheExportCannotBeWritten) {
  std::ofstream full("/dev/full");
  const Store store = full_store();
  EXPECT_EQ(database_error(Kind::Full, [&] { store.export_jsonl(full); }),
            "the export could not be written after 10 rows: is the disk full?");
}

}  // namespace
}  // namespace tilewright::database::testing
