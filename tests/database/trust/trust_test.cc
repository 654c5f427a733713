// Trust in kernels: a store returns those that were made here in a file that nobody else may write,
// and signed ones.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "database/schema.h"
#include "database/serving.h"
#include "database/tables/convert.h"
#include "database/tables/row.h"
#include "tests/database/fixture.h"

namespace tilewright::database::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = DatabaseError::Kind;

constexpr uid_t kSomebody = 1000;

class Trusting : public ::testing::Test {
 protected:
  void SetUp() override {
    Store store = Store::open(path_, Mode::Create);
    record_ = store_with_artifact(store, sample_record(0));
  }

  // The reason why there is no kernel, or "". The facts about the kernel are returned in any case.
  std::string miss(const fs::path& path, const Trust& trust = {}) const {
    const Store store = Store::open(path, Mode::ReadOnly, milliseconds(100), trust);
    EXPECT_EQ(store.records().records.size(), 1u);
    BestQuery facts = query_for(record_);
    facts.need_artifact = false;
    EXPECT_TRUE(store.best(facts).record);
    const BestResult best = store.best(query_for(record_));
    EXPECT_EQ(best.artifact.has_value(), best.miss.empty());
    EXPECT_EQ(store.artifact(record_.artifact_hash).value.has_value(), best.miss.empty());
    EXPECT_EQ(store.info().runnable, best.miss.empty() ? 1 : 0);
    return best.miss;
  }
  std::string miss() const { return miss(path_); }

  static bool is_root() { return geteuid() == 0; }

  TempFolder folder_;
  fs::path path_ = folder_ / "k.db";
  Record record_;
};

TEST_F(Trusting, AFileThatOnlyItsOwnerMayWrite) {
  EXPECT_EQ(miss(), "");
  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  EXPECT_EQ(miss(), "");
}

TEST_F(Trusting, NoFileThatOthersMayWrite) {
  for (const mode_t mode : {0666, 0664, 0622, 0606}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_THAT(miss(), AllOf(HasSubstr("its code is not trusted"), HasSubstr("chmod go-w '"),
                              HasSubstr("--trust KEY")))
        << std::oct << mode;
  }
}

TEST_F(Trusting, NoFileOfSomebodyElse) {
  if (!is_root()) GTEST_SKIP() << "only root may give a file away";
  ASSERT_EQ(chown(path_.c_str(), kSomebody, kSomebody), 0);
  EXPECT_THAT(miss(), AllOf(HasSubstr("belongs to user 1000"), HasSubstr("chown 0 '")));
}

TEST_F(Trusting, NoFileInAFolderThatOthersMayWrite) {
  fs::create_directory(folder_ / "open");
  fs::create_directory(folder_ / "open/in");
  fs::copy_file(path_, folder_ / "open/in/k.db");
  EXPECT_EQ(miss(folder_ / "open/in/k.db"), "");
  ASSERT_EQ(chmod((folder_ / "open").c_str(), 0777), 0);
  EXPECT_THAT(miss(folder_ / "open/in/k.db"), HasSubstr("open' may be written by others"));
  // In a sticky folder nobody can move another user's file, but anybody can put a journal beside
  // it.
  ASSERT_EQ(chmod((folder_ / "open").c_str(), 01777), 0);
  EXPECT_EQ(miss(folder_ / "open/in/k.db"), "");
  fs::copy_file(path_, folder_ / "open/k.db");
  EXPECT_THAT(miss(folder_ / "open/k.db"), HasSubstr("put a journal beside"));
}

TEST_F(Trusting, AFileBehindALinkIsJudgedWhereItLies) {
  fs::create_symlink(path_, folder_ / "link.db");
  EXPECT_EQ(miss(folder_ / "link.db"), "");
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  EXPECT_THAT(miss(folder_ / "link.db"), HasSubstr("k.db' may be written by others"));
}

// SQLite applies a journal before anything is read.
TEST_F(Trusting, NoJournalOfSomebodyElse) {
  for (const char* suffix : {"-journal", "-wal"}) {
    const fs::path journal = path_.string() + suffix;
    write_file(journal, "planted");
    ASSERT_EQ(chmod(journal.c_str(), 0666), 0);
    for (const Mode mode : {Mode::ReadOnly, Mode::ReadWrite, Mode::Create}) {
      EXPECT_THAT(database_error(Kind::Untrusted, [&] { Store::open(path_, mode); }),
                  AllOf(HasSubstr("k.db" + std::string(suffix)), HasSubstr("rm '")));
    }
    fs::remove(journal);
  }
  EXPECT_EQ(miss(), "");
}

TEST_F(Trusting, NothingThatCameByMergeUntilItIsMadeHere) {
  Store store = Store::open(folder_ / "own.db", Mode::Create);
  const MergeReport report = store.merge(path_);
  EXPECT_EQ(report.foreign, 1);
  EXPECT_EQ(report.adopted, 0);
  EXPECT_THAT(miss(folder_ / "own.db"),
              AllOf(HasSubstr("came by merge from '" + path_.string() + "' on 20"),
                    HasSubstr("'tune-cli db merge --rebuild --db ")));
  EXPECT_EQ(store.merge(path_).foreign, 0) << "is filed once";
  EXPECT_TRUE(store.check().ok());
  store_with_artifact(store, sample_record(0));
  EXPECT_EQ(miss(folder_ / "own.db"), "");
}

TEST_F(Trusting, NothingThatCameByImport) {
  Store store = Store::open(folder_ / "own.db", Mode::Create);
  std::istringstream lines(content(path_));
  EXPECT_EQ(store.import_jsonl(lines, "k.jsonl").foreign, 1);
  EXPECT_THAT(miss(folder_ / "own.db"), HasSubstr("came by import from 'k.jsonl' on 20"));
}

// The origins of another file stay there: merging it must not change who is trusted.
TEST_F(Trusting, OriginsAreNotMergedAndNotExported) {
  EXPECT_EQ(content(path_).find("origin"), std::string::npos);
  EXPECT_EQ(content(path_).find("made here"), std::string::npos);
}

// A record from elsewhere may name a kernel of this file for a workload that the kernel does not
// compute.
TEST_F(Trusting, AKernelOfAnotherWorkloadIsNone) {
  Store foreign = Store::open(folder_ / "other.db", Mode::Create);
  Record crossed = sample_record(5, 1);
  crossed.artifact_hash = record_.artifact_hash;
  foreign.insert(crossed);
  Store store = Store::open(path_, Mode::ReadWrite);
  store.merge(folder_ / "other.db");
  EXPECT_THAT(store.best(query_for(crossed)).miss, HasSubstr("its code is not trusted"));
  EXPECT_TRUE(store.best(query_for(record_)).artifact);
}

// XXH3 is no cryptographic hash: other code with the same hash can be found.
TEST_F(Trusting, OtherCodeUnderTheSameHash) {
  Row forged = artifact_row(sample_artifact(66));
  forged[0] = record_.artifact_hash;
  {
    const Connection connection(path_.string(), Connection::Access::Write, milliseconds(0));
    replace_row(connection, table_named("artifacts"), kSchemaVersion, forged);
  }
  EXPECT_THAT(miss(), HasSubstr("its code is not trusted"));
  // The kernel made here replaces it.
  Store store = Store::open(path_, Mode::ReadWrite);
  store.put_artifact(sample_artifact(0));
  EXPECT_EQ(store.best(query_for(record_)).artifact->bytes, sample_artifact(0).bytes);
  // A kernel that only claims the hash is not even merged.
  const MergeReport report = [&] {
    Store other = Store::open(folder_ / "forged.db", Mode::Create);
    store_with_artifact(other, sample_record(0));
    const Connection connection((folder_ / "forged.db").string(), Connection::Access::Write,
                                milliseconds(0));
    replace_row(connection, table_named("artifacts"), kSchemaVersion, forged);
    return store.merge(folder_ / "forged.db");
  }();
  ASSERT_EQ(report.bad.size(), 1u);
  EXPECT_EQ(report.bad[0].problem, "its hash is not that of its content");
  EXPECT_EQ(store.best(query_for(record_)).artifact->bytes, sample_artifact(0).bytes);
}

class Signing : public Trusting {
 protected:
  void SetUp() override {
    Trusting::SetUp();
    key_ = SigningKey::generate(folder_ / "builder.key");
    EXPECT_EQ(Store::open(path_, Mode::ReadWrite).sign(key_), 1);
  }

  SigningKey key_;
};

TEST_F(Signing, AKernelRunsWithItsKeyWhoeverMayWriteTheFile) {
  const std::string other = SigningKey::generate(folder_ / "other.key").public_key;
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  EXPECT_NE(miss(), "");
  EXPECT_NE(miss(path_, {{other}, ""}), "");
  EXPECT_EQ(miss(path_, {{key_.public_key}, ""}), "");
  EXPECT_EQ(miss(path_, {{other, key_.public_key}, ""}), "");
}

TEST_F(Signing, IsOfTheCodeAndItsWorkload) {
  const Trust trust{{key_.public_key}, ""};
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  {
    Artifact changed = sample_artifact(0);
    changed.bytes[7] = std::byte{1};
    Row forged = artifact_row(changed);
    forged[0] = record_.artifact_hash;
    const Connection connection(path_.string(), Connection::Access::Write, milliseconds(0));
    replace_row(connection, table_named("artifacts"), kSchemaVersion, forged);
  }
  EXPECT_NE(miss(path_, trust), "");
  {
    const Connection connection(path_.string(), Connection::Access::Write, milliseconds(0));
    replace_row(connection, table_named("artifacts"), kSchemaVersion,
                artifact_row(sample_artifact(0)));
  }
  EXPECT_EQ(miss(path_, trust), "");
  // The signature of another workload's kernel.
  Store::open(path_, Mode::ReadWrite);
  Record crossed = sample_record(5, 1);
  crossed.artifact_hash = record_.artifact_hash;
  {
    const Connection connection(path_.string(), Connection::Access::Write, milliseconds(0));
    for (const auto& [table, row] :
         {std::pair{"workloads", workload_row(crossed)}, {"records", record_row(crossed)}}) {
      join_row(connection, table_named(table), kSchemaVersion, row);
    }
    RowScan scan(connection, table_named("signatures"), kSchemaVersion);
    ASSERT_TRUE(scan.next());
    Row moved = scan.row();
    moved[1] = crossed.workload_hash;
    join_row(connection, table_named("signatures"), kSchemaVersion, moved);
  }
  const Store store = Store::open(path_, Mode::ReadOnly, milliseconds(100), trust);
  EXPECT_THAT(store.best(query_for(crossed)).miss, HasSubstr("its code is not trusted"));
}

TEST_F(Signing, TravelsWithMergesAndExports) {
  const Trust trust{{key_.public_key}, ""};
  Store::open(folder_ / "merged.db", Mode::Create).merge(path_);
  EXPECT_NE(miss(folder_ / "merged.db"), "");
  EXPECT_EQ(miss(folder_ / "merged.db", trust), "");
  {
    Store imported = Store::open(folder_ / "imported.db", Mode::Create);
    std::istringstream lines(content(folder_ / "merged.db"));
    imported.import_jsonl(lines);
  }
  EXPECT_EQ(miss(folder_ / "imported.db", trust), "");
}

// A merge with the key permanently accepts the kernels that it signed.
TEST_F(Signing, AMergeMayTrustAKey) {
  const MergeReport report =
      Store::open(folder_ / "own.db", Mode::Create, milliseconds(100), {{key_.public_key}, ""})
          .merge(path_);
  EXPECT_EQ(report.adopted, 1);
  EXPECT_EQ(report.foreign, 0);
  EXPECT_EQ(miss(folder_ / "own.db"), "");
}

TEST_F(Signing, SignsNothingThatWasMadeElsewhere) {
  Store store =
      Store::open(folder_ / "own.db", Mode::Create, milliseconds(100), {{key_.public_key}, ""});
  Store unsigned_store = Store::open(folder_ / "unsigned.db", Mode::Create);
  store_with_artifact(unsigned_store, sample_record(3));
  store.merge(folder_ / "unsigned.db");
  EXPECT_EQ(store.sign(key_), 0);
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  EXPECT_THAT(
      database_error(Kind::Untrusted, [&] { Store::open(path_, Mode::ReadWrite).sign(key_); }),
      HasSubstr("nothing is signed, since others may have made it"));
}

TEST_F(Signing, KeysAreFilesThatOnlyTheirOwnerReads) {
  EXPECT_EQ(SigningKey::read(folder_ / "builder.key").public_key, key_.public_key);
  EXPECT_EQ(read_file(folder_ / "builder.key.pub"), key_.public_key + "\n");
  const auto error = [](const auto& action) -> std::string {
    try {
      action();
    } catch (const TrustError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(error([&] { SigningKey::generate(folder_ / "builder.key"); }),
              HasSubstr("name another file"));
  EXPECT_THAT(error([&] { SigningKey::read(folder_ / "builder.key.pub"); }),
              HasSubstr("chmod 600"));
  ASSERT_EQ(chmod((folder_ / "builder.key.pub").c_str(), 0600), 0);
  EXPECT_THAT(error([&] { SigningKey::read(folder_ / "builder.key.pub"); }), HasSubstr("is none"));
  EXPECT_THAT(error([&] { SigningKey::read(folder_ / "none.key"); }), HasSubstr("db keygen"));
  ASSERT_EQ(chmod((folder_ / "builder.key").c_str(), 0640), 0);
  EXPECT_THAT(error([&] { SigningKey::read(folder_ / "builder.key"); }), HasSubstr("chmod 600"));
  EXPECT_THAT(error([&] {
                miss(path_, {{"abc"}, ""});
              }),
              HasSubstr("a public key must be 64 hexadecimal digits, got 'abc'"));
}

class Pinning : public Trusting {
 protected:
  void SetUp() override {
    Trusting::SetUp();
    pin_ = Store::open(path_, Mode::ReadOnly).export_serving(served_).sha256;
  }

  fs::path served_ = folder_ / "serve.db";
  std::string pin_;
};

TEST_F(Pinning, AServingFileVouchesForItsKernels) {
  EXPECT_EQ(miss(served_), "");
  ASSERT_EQ(chmod(served_.c_str(), 0666), 0);
  EXPECT_NE(miss(served_), "");
  EXPECT_EQ(miss(served_, {{}, pin_}), "");
}

TEST_F(Pinning, OnlyTheFileOfThatContent) {
  std::string bytes = read_file(served_);
  ASSERT_EQ(chmod(served_.c_str(), 0666), 0);
  bytes[bytes.size() / 2] ^= 1;
  write_file(served_, bytes);
  EXPECT_THAT(database_error(Kind::Untrusted,
                             [&] {
                               miss(served_, {{}, pin_});
                             }),
              AllOf(HasSubstr("is not the file that was pinned"), HasSubstr(pin_)));
}

TEST_F(Pinning, OnlyServingFiles) {
  const std::string bytes = read_file(path_);
  const std::string pin = sha256({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
  EXPECT_THAT(database_error(Kind::Untrusted,
                             [&] {
                               miss(path_, {{}, pin});
                             }),
              HasSubstr("is no serving file"));
}

TEST_F(Pinning, AServingFileHoldsNothingThatMustNotRun) {
  Store own = Store::open(folder_ / "own.db", Mode::Create);
  own.merge(path_);
  const ServingReport report = own.export_serving(folder_ / "none.db");
  EXPECT_EQ(report.records, 0);
  EXPECT_EQ(report.artifacts, 0);
}

// A file of schema version 4, which kept no origins.
class BeforeOrigins : public Trusting {
 protected:
  void SetUp() override {
    const Connection connection(path_.string(), Connection::Access::Create, milliseconds(0));
    SqlTransaction transaction(connection, SqlTransaction::Kind::Write);
    create_schema(connection, 4);
    record_ = sample_record(0);
    const Row artifact = artifact_row(sample_artifact(0));
    record_.artifact_hash = std::get<std::string>(artifact[0]);
    join_row(connection, table_named("artifacts"), 4, artifact);
    join_row(connection, table_named("workloads"), 4, workload_row(record_));
    join_row(connection, table_named("targets"), 4, target_row(record_.target));
    join_row(connection, table_named("records"), 4, record_row(record_));
    transaction.commit();
  }
};

TEST_F(BeforeOrigins, KernelsAreTheOwnersOfTheFile) {
  EXPECT_EQ(miss(), "");
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  EXPECT_NE(miss(), "");
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  EXPECT_EQ(Store::open(path_, Mode::ReadWrite).schema_version(), 5);
  EXPECT_EQ(miss(), "");
  EXPECT_TRUE(Store::open(path_, Mode::ReadOnly).check().ok());
}

TEST_F(BeforeOrigins, AMigrationVouchesForNothingThatOthersMayHaveWritten) {
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  Store::open(path_, Mode::ReadWrite);
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  EXPECT_THAT(miss(), HasSubstr("it stood in a file that others could write"));
}

// The forged row's checksum is valid.
TEST_F(Trusting, TextThatIsNotUtf8IsPassedOverAndReported) {
  Record odd = record_;
  odd.label = "\xff\x61\xfe";
  {
    const Connection connection(path_.string(), Connection::Access::Write, milliseconds(0));
    Row row = record_row(record_);
    row[table_named("records").index_of("label")] = odd.label;
    replace_row(connection, table_named("records"), kSchemaVersion, row);
    row[0] = std::string("\x80id");
    replace_row(connection, table_named("records"), kSchemaVersion, row);
  }
  const Store store = Store::open(path_, Mode::ReadOnly);
  EXPECT_TRUE(store.records().records.empty());
  ASSERT_EQ(store.check().rows.size(), 2u);
  EXPECT_EQ(store.check().rows[1].problem, "column id is not valid UTF-8");
  EXPECT_EQ(store.check().rows[1].key, "\xef\xbf\xbdid");
  EXPECT_EQ(store.check().rows[0].problem, "column label is not valid UTF-8");
  EXPECT_EQ(store.info().bad.size(), 2u);
}

// A verdict that no version has: the row cannot be used, but other rows can.
TEST_F(Trusting, ARecordOfAnUnknownVerdictIsPassedOver) {
  {
    const Connection connection(path_.string(), Connection::Access::Write, milliseconds(0));
    Row row = record_row(sample_record(1));
    row[table_named("records").index_of("verdict")] = std::string("splendid");
    replace_row(connection, table_named("records"), kSchemaVersion, row);
  }
  EXPECT_EQ(miss(), "");
}

TEST(OddFiles, AFifoIsNoDatabase) {
  TempFolder folder;
  const fs::path fifo = folder / "fifo.db";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const Mode mode : {Mode::ReadOnly, Mode::ReadWrite, Mode::Create}) {
    EXPECT_THAT(database_error(Kind::NotADatabase, [&] { Store::open(fifo, mode); }),
                HasSubstr("is a FIFO, socket or device, expected a database file"));
  }
  EXPECT_THAT(database_error(Kind::NotADatabase, [&] { Store::open("/dev/null", Mode::Create); }),
              HasSubstr("is a FIFO, socket or device"));
  EXPECT_FALSE(is_serving_file(fifo));
  Store store = Store::open(folder / "k.db", Mode::Create);
  database_error(Kind::NotADatabase, [&] { store.merge(fifo); });
  database_error(Kind::Unwritable, [&] { store.export_serving(fifo); });
}

}  // namespace
}  // namespace tilewright::database::testing
