// Databases that are locked, cut, flipped, from the future or unreadable: exit code 5, and what is
// said. That no wrong row comes out is the business of tests/database.
#include <gmock/gmock.h>
#include <sqlite3.h>
#include <unistd.h>

#include "database/store.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;

class DamagedDatabase : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    ASSERT_EQ(run(std::string("tune --quiet --trials 2 --threads 1 ") + kSmall).code, 0);
  }

  // Every command that reads kernels, and `check`, end with 5 and say this.
  void expect_five(const std::string& said) {
    for (const char* command : {"replay --threads 1 ", "tune --trials 2 --threads 1 "}) {
      Ran ran = run(command + std::string(kSmall));
      EXPECT_EQ(ran.code, 5) << command << ran.err;
      EXPECT_THAT(ran.err, HasSubstr(said)) << command;
    }
    Ran check = run("db check");
    EXPECT_EQ(check.code, 5) << check.out << check.err;
  }

  // An open connection of another program.
  struct Connection {
    explicit Connection(const fs::path& path) { sqlite3_open(path.c_str(), &handle); }
    ~Connection() { sqlite3_close(handle); }
    int exec(const char* sql) const { return sqlite3_exec(handle, sql, nullptr, nullptr, nullptr); }
    sqlite3* handle = nullptr;
  };

  fs::path file() const { return dir_ / "tilewright.db"; }
};

TEST_F(DamagedDatabase, Locked) {
  Connection other(file());
  ASSERT_EQ(other.exec("BEGIN EXCLUSIVE"), SQLITE_OK);
  Ran ran = run(std::string("replay --threads 1 ") + kSmall);
  EXPECT_EQ(ran.code, 5) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("locked"));
  ASSERT_EQ(other.exec("ROLLBACK"), SQLITE_OK);
  EXPECT_EQ(run(std::string("replay --require --threads 1 ") + kSmall).code, 0);
}

TEST_F(DamagedDatabase, Truncated) {
  fs::resize_file(file(), fs::file_size(file()) / 2);
  expect_five("tilewright.db");
}

// The test follows the advice, which saves rows.
TEST_F(DamagedDatabase, TruncatedTellsWhatSavesRows) {
  const size_t whole = fs::file_size(file());
  fs::resize_file(file(), whole - 4096);
  const std::string longer = "truncate -s " + std::to_string(whole) + " tilewright.db";
  Ran refused = run("best");
  EXPECT_EQ(refused.code, 5);
  EXPECT_THAT(refused.err, HasSubstr("is truncated: it has " + std::to_string(whole - 4096) +
                                     " of " + std::to_string(whole) + " bytes"));
  EXPECT_THAT(refused.err, HasSubstr("'" + longer + "'"));
  ASSERT_EQ(shell(longer).code, 0);
  Ran saved = run("db export rows.jsonl --json --db tilewright.db");
  ASSERT_EQ(saved.code, 0) << saved.err;
  EXPECT_GT(saved.json()["rows"], 0);
  EXPECT_EQ(run("db import rows.jsonl --db new.db").code, 0);
}

TEST_F(DamagedDatabase, WithAFlippedBitInItsHeader) {
  std::fstream bytes(file(), std::ios::in | std::ios::out | std::ios::binary);
  bytes.put('s');  // of "SQLite format 3"
  bytes.close();
  expect_five("is not a SQLite database");
}

TEST_F(DamagedDatabase, WithAFlippedBitInAKernel) {
  std::string bytes = read(file());
  size_t elf = bytes.find(
      "\x7f"
      "ELF");
  ASSERT_NE(elf, std::string::npos);
  bytes[elf + 4] ^= 1;
  std::ofstream(file(), std::ios::binary) << bytes;
  EXPECT_EQ(run("db check").code, 5);
  Ran pruned = run("db prune --json --drop-damaged");
  ASSERT_EQ(pruned.code, 0) << pruned.err;
  EXPECT_GE(pruned.json()["damaged"], 1);
}

TEST_F(DamagedDatabase, OfANewerSchema) {
  ASSERT_EQ(Connection(file()).exec("PRAGMA user_version = 99"), SQLITE_OK);
  expect_five("99");
}

TEST_F(DamagedDatabase, Unreadable) {
  fs::remove(file());
  fs::create_directory(file());
  expect_five("tilewright.db");
}

TEST_F(DamagedDatabase, WithoutPermission) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  fs::permissions(file(), fs::perms::none);
  expect_five("tilewright.db");
}

// Sound by its checksum, and no kernel all the same.
TEST_F(DamagedDatabase, WithAKernelThatDoesNotLoad) {
  using namespace database;
  {
    Store store = Store::open(file(), Mode::ReadWrite);
    Record best = store.records({.by_time = true, .limit = 1}).records.at(0);
    Artifact kernel = *store.artifact(best.artifact_hash).value;
    kernel.bytes.resize(40);
    best.artifact_hash = store.put_artifact(kernel);
    best.median_seconds = best.best_seconds = 1e-12;
    best.samples = {1e-12};
    best.confirmed = true;
    best.created = 0;
    store.insert(best);
  }
  for (const char* command : {"replay --threads 1 ", "bench --threads 1 "}) {
    Ran ran = run(command + std::string(kSmall));
    EXPECT_EQ(ran.code, 5) << command << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("cannot load a kernel")) << command;
  }
  Ran replayed = run(std::string("replay --threads 1 ") + kSmall);
  EXPECT_THAT(replayed.err, HasSubstr(std::string("the stored kernel of ") + kSmall));
}

}  // namespace
}  // namespace tilewright::cli
