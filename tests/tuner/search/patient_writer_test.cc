#include "tuner/search/patient_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "database/tables/sqlite.h"
#include "tests/database/fixture.h"

namespace tilewright {
namespace {

using database::Connection;
using database::DatabaseError;
using database::Store;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

class PatientWriterTest : public ::testing::Test {
 protected:
  PatientWriterTest()
      : store_(Store::open(dir_ / "t.db", database::Mode::Create, milliseconds(1))),
        other_((dir_ / "t.db").string(), Connection::Access::Read, milliseconds(1)) {}

  // Another process reads and does not finish.
  void hold() {
    other_.exec("BEGIN", "test");
    other_.query_integer("SELECT count(*) FROM records", "test");
  }
  void release() { other_.exec("COMMIT", "test"); }

  static PatientWriter::Write record(int trial) {
    return [r = database::testing::sample_record(trial)](Store& store) { store.insert(r); };
  }
  size_t stored() const { return store_.records().records.size(); }

  database::testing::TempFolder dir_;
  Store store_;
  Connection other_;
};

TEST_F(PatientWriterTest, StoresAtOnceWhatItCan) {
  PatientWriter writer(store_);
  writer.put(record(1));
  EXPECT_EQ(writer.waiting(), 0u);
  EXPECT_EQ(stored(), 1u);
}

TEST_F(PatientWriterTest, DoesNotRepeatWhatFailsForGood) {
  PatientWriter writer(store_);
  int calls = 0;
  auto fail = [&](Store&) {
    ++calls;
    throw DatabaseError(DatabaseError::Kind::Damaged, "the file is gone");
  };
  EXPECT_THROW(writer.put(fail), DatabaseError);
  writer.put(record(1));
  writer.flush();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(stored(), 1u);
}

TEST_F(PatientWriterTest, KeepsWhatAReaderHoldsUp) {
  PatientWriter writer(store_, {.retry = 0, .limit = 1e9});
  hold();
  writer.put(record(1));
  writer.put(record(2));
  EXPECT_EQ(writer.waiting(), 2u);
  EXPECT_EQ(stored(), 0u);
  release();
  writer.put(record(3));
  EXPECT_EQ(writer.waiting(), 0u);
  EXPECT_EQ(stored(), 3u);
}

TEST_F(PatientWriterTest, DoesNotTryEachTime) {
  PatientWriter writer(store_, {.retry = 1e9, .limit = 1e9});
  hold();
  writer.put(record(1));
  release();
  writer.put(record(2));
  EXPECT_EQ(writer.waiting(), 2u) << "it is not time yet";
  writer.flush();
  EXPECT_EQ(stored(), 2u);
}

TEST_F(PatientWriterTest, LosesItsPatience) {
  PatientWriter writer(store_, {.retry = 0, .limit = 0});
  hold();
  try {
    writer.put(record(1));
    FAIL() << "no error";
  } catch (const DatabaseError& e) {
    EXPECT_EQ(e.kind(), DatabaseError::Kind::Locked);
    EXPECT_THAT(e.what(), HasSubstr("t.db' has been held by another process for "));
    EXPECT_THAT(e.what(), HasSubstr("1 finished trials and notes could not be stored"));
  }
  EXPECT_EQ(writer.waiting(), 1u);
}

TEST_F(PatientWriterTest, OtherFaultsAreNoReasonToWait) {
  PatientWriter writer(store_, {.retry = 0, .limit = 1e9});
  EXPECT_THROW(
      writer.put([](Store&) { throw DatabaseError(DatabaseError::Kind::Full, "no room"); }),
      DatabaseError);
}

}  // namespace
}  // namespace tilewright
