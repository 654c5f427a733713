// Databases that are damaged, foreign, of another version: a status and a sentence, and never a kernel
// that was not checked.
#include <filesystem>
#include <fstream>

#include "database/schema.h"
#include "database/tables/convert.h"
#include "database/tables/row.h"
#include "tests/database/fixture.h"
#include "tests/serving/fixture.h"

namespace tilewright::serving::testing {
namespace {

using database::testing::read_file;
using database::testing::run_sql;
using database::testing::write_file;
using ::testing::HasSubstr;

std::string opening(const std::string& path) {
  tw_library* library = nullptr;
  tw_status status = tw_open(path.c_str(), nullptr, &library);
  tw_close(library);
  return std::string(tw_status_name(status)) + ": " + (status == TW_OK ? "" : tw_last_error());
}

TEST(ServingFaults, FilesThatAreNoDatabaseAreRefused) {
  Database db{HandMade{}};
  const std::string whole = read_file(db.path());
  write_file(db.path(), "a letter to a friend");
  EXPECT_THAT(opening(db.path()), ::testing::StartsWith("database: "));
  write_file(db.path(), whole.substr(0, whole.size() / 2));
  EXPECT_THAT(opening(db.path()), ::testing::StartsWith("database: "));
  write_file(db.path(), whole);
  EXPECT_EQ(opening(db.path()), "ok: ");
  run_sql(db.path(), "PRAGMA user_version=99");
  EXPECT_THAT(opening(db.path()), HasSubstr("has schema version 99"));
}

TEST(ServingFaults, ADamagedKernelIsAMissWithItsReason) {
  Database db{HandMade{}};
  run_sql(db.path(), "UPDATE artifacts SET bytes = CAST(bytes || x'00' AS BLOB)");
  Opened opened(db.path());
  PreparedSpec p(opened.library, "matmul:m=4,n=8,k=16");
  EXPECT_EQ(p.report().outcome, TW_MISS);
  EXPECT_THAT(p.report().reason, HasSubstr("its artifact cannot be used"));
}

TEST(ServingFaults, ADamagedRecordLeavesTheNextBest) {
  Database db{{.tag = 1, .seconds = 1e-7}, {.tag = 2, .seconds = 1e-6}};
  run_sql(db.path(),
          "UPDATE records SET threads = 1, median_seconds = 9e-8 "
          "WHERE median_seconds < 5e-7");
  Opened opened(db.path());
  PreparedSpec p(opened.library, "matmul:m=4,n=8,k=16");
  ASSERT_EQ(p.found, TW_OK) << tw_last_error();
  EXPECT_EQ(p.report().seconds, 1e-6);
  EXPECT_EQ(p.report().outcome, TW_NEAR) << "it stands in for another one";
  EXPECT_THAT(p.report().reason, HasSubstr("a record is damaged"));
}

// The default serves in its place, and nobody takes it for a hit.
TEST(ServingFaults, ADamagedKernelIsToldWhereAnotherOneServes) {
  Database db{{.tag = 1, .seconds = 1e-7}, {.tag = 2, .is_default = true, .seconds = 1e-6}};
  run_sql(db.path(),
          "UPDATE artifacts SET bytes = CAST(bytes || x'00' AS BLOB) WHERE hash = "
          "(SELECT artifact_hash FROM records WHERE NOT is_default)");
  Opened opened(db.path());
  PreparedSpec p(opened.library, "matmul:m=4,n=8,k=16");
  ASSERT_EQ(p.found, TW_OK) << tw_last_error();
  EXPECT_EQ(p.report().outcome, TW_DEFAULT);
  EXPECT_THAT(p.report().reason, HasSubstr("its artifact cannot be used"));
}

// As the first version of the tool left it, in a folder that nobody may write to.
TEST(ServingFaults, AnOlderSchemaIsReadAsItIs) {
  namespace db = tilewright::database;
  Database today{{.tag = 6}};
  test::TempDir folder;
  const std::string old = folder.path("old.db");
  {
    db::Store store = db::Store::open(today.path(), db::Mode::ReadOnly);
    db::Record record = store.records().records.at(0);
    db::Artifact artifact = *store.artifact(record.artifact_hash).value;
    const db::Connection connection(old, db::Connection::Access::Create,
                                    std::chrono::milliseconds(0));
    db::SqlTransaction transaction(connection, db::SqlTransaction::Kind::Write);
    db::create_schema(connection, 1);
    const auto join = [&](const char* table, const db::Row& row) {
      db::join_row(connection, db::table_named(table), 1, row);
    };
    join("workloads", db::workload_row(record));
    join("targets", db::target_row(record.target));
    join("records", db::record_row(record));
    join("artifacts", db::artifact_row(artifact));
    transaction.commit();
  }
  std::filesystem::permissions(old, std::filesystem::perms::owner_read);
  const std::string before = read_file(old);
  Opened opened(old);
  PreparedSpec p(opened.library, "matmul:m=4,n=8,k=16");
  ASSERT_EQ(p.found, TW_OK) << tw_last_error();
  EXPECT_EQ(p.report().outcome, TW_HIT);
  EXPECT_EQ(read_file(old), before);
}

// Another processor's kernels: never loaded, though the file holds them.
TEST(ServingFaults, InstructionsThatThisProcessorLacksAreNoDefault) {
  Database db{{.is_default = true,
               .target = database::make_target("Another Chip", "no_such_feature", 4, "")}};
  Opened opened(db.path());
  PreparedSpec p(opened.library, "matmul:m=4,n=8,k=16");
  EXPECT_EQ(p.report().outcome, TW_MISS);
  EXPECT_THAT(p.report().reason, HasSubstr("tuned for another chip: 'Another Chip'"));
}

TEST(ServingFaults, NullHandlesAreRefusedOrIgnored) {
  tw_close(nullptr);
  tw_release(nullptr);
  tw_free_weights(nullptr);
  tw_pool_stop(nullptr);
  EXPECT_EQ(tw_report_count(nullptr), 0u);
  EXPECT_EQ(tw_operand_count(nullptr), 0u);
  EXPECT_EQ(tw_weights_bytes(nullptr), 0u);
  EXPECT_STREQ(tw_weights_identity(nullptr), "");
  EXPECT_EQ(tw_pool_executor(nullptr), nullptr);
  const tw_kernel* kernel = nullptr;
  EXPECT_EQ(tw_find(nullptr, "matmul:m=4,n=8,k=16", &kernel), TW_ERROR_ARGUMENT);
  EXPECT_STREQ(tw_last_error(), "'prepared' is null");
  auto args = TW_INIT(tw_launch_args);
  EXPECT_EQ(tw_launch(nullptr, &args), TW_ERROR_ARGUMENT);
  EXPECT_STREQ(tw_last_error(), "'kernel' is null");
}

}  // namespace
}  // namespace tilewright::serving::testing
