// Processes that die, full disks, and files that other processes use.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/database/fixture.h"

namespace tilewright::database::testing {
namespace {

using Kind = DatabaseError::Kind;

// Runs `body` in a child process and returns its exit code, or minus the signal that ended it.
// `body` returns the exit code; an exception gives 99.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    int code = 99;
    try {
      code = body();
    } catch (const std::exception& error) {
      fprintf(stderr, "child: %s\n", error.what());
    }
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Stores records without end, and reports each on `pipe` once it is committed.
[[noreturn]] void insert_forever(const fs::path& path, int first, int pipe) {
  try {
    Store store = Store::open(path, Mode::Create);
    for (int number = first;; ++number) {
      Transaction transaction = store.begin();
      store_with_artifact(store, sample_record(number));
      transaction.commit();
      if (write(pipe, &number, sizeof number) != sizeof number) _exit(1);
    }
  } catch (const std::exception& error) {
    fprintf(stderr, "child: %s\n", error.what());
    _exit(2);
  }
}

// Lets a child store records, kills it after `wanted` of them, and adds those it reported.
void kill_while_inserting(const fs::path& path, int first, int wanted, int delay_microseconds,
                          std::set<int>& acknowledged) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    insert_forever(path, first, ends[1]);
  }
  close(ends[1]);
  int number = 0;
  for (int i = 0; i < wanted; ++i) {
    ASSERT_EQ(read(ends[0], &number, sizeof number), static_cast<ssize_t>(sizeof number));
    acknowledged.insert(number);
  }
  usleep(static_cast<useconds_t>(delay_microseconds));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  while (read(ends[0], &number, sizeof number) == sizeof number) acknowledged.insert(number);
  close(ends[0]);
}

TEST(Crash, NoAcknowledgedRecordIsLostByKill9) {
  TempFolder folder;
  std::set<int> acknowledged;
  std::mt19937 random(11);
  for (int round = 0; round < 12; ++round) {
    kill_while_inserting(folder / "a.db", round * 1000, 1 + static_cast<int>(random() % 5),
                         static_cast<int>(random() % 4000), acknowledged);
    // In every second round a reader opens the file first after the crash.
    const Store store =
        Store::open(folder / "a.db", round % 2 == 0 ? Mode::ReadOnly : Mode::ReadWrite);
    const RecordList list = store.records();
    EXPECT_TRUE(list.skipped.empty());
    std::set<int> found;
    for (const Record& record : list.records) {
      found.insert(record.trial);
      EXPECT_TRUE(store.artifact(record.artifact_hash));
    }
    for (const int number : acknowledged) EXPECT_TRUE(found.contains(number)) << number;
    EXPECT_LE(found.size(), acknowledged.size() + static_cast<size_t>(round) + 1);
    EXPECT_TRUE(store.check().ok());
  }
  EXPECT_GE(acknowledged.size(), 12u);
}

TEST(Crash, NothingIsLostWhenOneOfSeveralWritersIsKilled) {
  const fs::path program = fs::canonical("/proc/self/exe").parent_path() / "killed_writers";
  EXPECT_EQ(std::system((program.string() + " 20 8 5 >&2").c_str()), 0);
}

// Dies inside a transaction that is too large for the page cache. The file itself then holds half
// of it, and the journal holds the old pages.
void die_in_transaction(const fs::path& path) {
  const int code = in_child([&] {
    Store store = Store::open(path, Mode::ReadWrite);
    const Transaction transaction = store.begin();
    for (int i = 0; i < 8; ++i) store.put_artifact(sample_artifact(100 + i, 1 << 20));
    store.insert(sample_record(50));
    raise(SIGKILL);
    return 0;
  });
  ASSERT_EQ(code, -SIGKILL);
}

TEST(Crash, AHalfWrittenTransactionIsRolledBackByWhoeverComesNext) {
  for (const Mode mode : {Mode::ReadOnly, Mode::ReadWrite, Mode::Create}) {
    TempFolder folder;
    const fs::path path = folder / "a.db";
    {
      Store store = Store::open(path, Mode::Create);
      store_with_artifact(store, sample_record(0));
    }
    const std::string before = content(path);
    const std::string bytes = read_file(path);
    die_in_transaction(path);
    ASSERT_TRUE(fs::exists(path.string() + "-journal"));
    ASSERT_NE(read_file(path), bytes) << "the transaction must have reached the file";
    EXPECT_EQ(content(Store::open(path, mode)), before);
    EXPECT_EQ(read_file(path), bytes);
  }
}

// Only the tests' own children are limited.
int with_file_limit(rlim_t bytes, const std::function<int()>& body) {
  return in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {bytes, bytes};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 98;
    return body();
  });
}

TEST(Full, NothingIsLostAndTheErrorSaysSo) {
  TempFolder folder;
  const fs::path path = folder / "a.db";
  {
    Store store = Store::open(path, Mode::Create);
    store_with_artifact(store, sample_record(0));
  }
  const std::string before = content(path);
  const int code = with_file_limit(fs::file_size(path) + 20000, [&] {
    Store store = Store::open(path, Mode::ReadWrite);
    try {
      store.put_artifact(sample_artifact(1, 1 << 22));
    } catch (const DatabaseError& error) {
      const bool clear = std::string(error.what()).find("there is no room to write database") == 0;
      // The store stays usable for data that still fits.
      store.set_run_state(store.begin_run({.args = "{}"}), RunState::Interrupted);
      return error.kind() == Kind::Full && clear ? 0 : 1;
    }
    return 2;
  });
  EXPECT_EQ(code, 0);
  Store store = Store::open(path, Mode::ReadWrite);
  EXPECT_TRUE(store.check().ok());
  EXPECT_EQ(store.last_unfinished_run().value->state, RunState::Interrupted);
  EXPECT_EQ(store.records().records.size(), 1u);
  EXPECT_NE(content(path), before);  // the run was stored
}

TEST(Full, ADatabaseThatCannotBeCreatedIsATypedError) {
  TempFolder folder;
  const int code = with_file_limit(5000, [&] {
    try {
      Store::open(folder / "a.db", Mode::Create);
    } catch (const DatabaseError& error) {
      return error.kind() == Kind::Full ? 0 : 1;
    }
    return 2;
  });
  EXPECT_EQ(code, 0);
  // With room again, the same command succeeds.
  Store::open(folder / "a.db", Mode::Create).insert(sample_record(0));
}

// Holds a lock on a database, as a long transaction of another process does.
class Holder {
 public:
  Holder(const fs::path& path, const char* begin) {
    sqlite3_open(path.c_str(), &handle_);
    EXPECT_EQ(sqlite3_exec(handle_, begin, nullptr, nullptr, nullptr), SQLITE_OK);
  }
  ~Holder() { sqlite3_close(handle_); }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

 private:
  sqlite3* handle_ = nullptr;
};

TEST(Locked, IsATypedErrorAfterTheTimeout) {
  TempFolder folder;
  const fs::path path = folder / "a.db";
  Store::open(path, Mode::Create);
  const Holder holder(path, "BEGIN EXCLUSIVE");
  for (const Mode mode : {Mode::ReadOnly, Mode::ReadWrite, Mode::Create}) {
    const std::string message =
        database_error(Kind::Locked, [&] { Store::open(path, mode, milliseconds(20)); });
    EXPECT_EQ(message, "database '" + path.string() +
                           "' is locked by another process (database is locked while opening it, "
                           "waited 20 ms): wait until it has finished and try again");
  }
}

TEST(Locked, AWriterDoesNotKeepReadersOut) {
  TempFolder folder;
  const fs::path path = folder / "a.db";
  Store store = Store::open(path, Mode::Create, milliseconds(20));
  store.insert(sample_record(0));
  const Holder holder(path, "BEGIN IMMEDIATE");
  EXPECT_EQ(Store::open(path, Mode::ReadOnly, milliseconds(20)).records().records.size(), 1u);
  database_error(Kind::Locked, [&] { store.insert(sample_record(1)); });
}

TEST(Locked, TheStoreCanBeUsedAgainAfterwards) {
  TempFolder folder;
  const fs::path path = folder / "a.db";
  Store store = Store::open(path, Mode::Create, milliseconds(20));
  {
    const Holder holder(path, "BEGIN EXCLUSIVE");
    database_error(Kind::Locked, [&] { store.insert(sample_record(0)); });
    database_error(Kind::Locked, [&] { store.records(); });
  }
  store.insert(sample_record(0));
  EXPECT_EQ(store.records().records.size(), 1u);
}

TEST(Concurrent, AReaderSeesWholeTransactionsWhileAnotherWrites) {
  TempFolder folder;
  const fs::path path = folder / "a.db";
  Store writer = Store::open(path, Mode::Create);
  constexpr int kBatches = 25;
  std::atomic<bool> done = false;
  std::thread thread([&] {
    for (int batch = 0; batch < kBatches; ++batch) {
      writer.insert(std::vector<Record>{sample_record(2 * batch), sample_record(2 * batch + 1)});
    }
    done = true;
  });
  size_t last = 0;
  const Store reader = Store::open(path, Mode::ReadOnly);
  while (!done) {
    const RecordList list = reader.records();
    EXPECT_EQ(list.records.size() % 2, 0u);
    EXPECT_GE(list.records.size(), last);
    EXPECT_TRUE(list.skipped.empty());
    last = list.records.size();
    std::this_thread::yield();
  }
  thread.join();
  EXPECT_EQ(reader.records().records.size(), 2u * kBatches);
}

TEST(Concurrent, ManyProcessesMayCreateTheSameFile) {
  TempFolder folder;
  const fs::path path = folder / "a.db";
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      int code = 1;
      try {
        Store::open(path, Mode::Create, std::chrono::seconds(60)).insert(sample_record(i));
        code = 0;
      } catch (const std::exception& error) {
        fprintf(stderr, "child: %s\n", error.what());
      }
      _exit(code);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(Store::open(path, Mode::ReadOnly).records().records.size(), 4u);
}

TEST(Rights, AReadOnlyFileCanBeReadButNotWritten) {
  TempFolder folder;
  const fs::path path = folder / "a.db";
  Store::open(path, Mode::Create).insert(sample_record(0));
  fs::permissions(path, static_cast<fs::perms>(0444));
  fs::permissions(folder / "", static_cast<fs::perms>(0555));
  const int code = in_child([&] {
    // Root may write everything; an ordinary user may not.
    if (geteuid() == 0 && seteuid(65534) != 0) return 98;
    if (Store::open(path, Mode::ReadOnly).records().records.size() != 1) return 1;
    try {
      Store::open(path, Mode::ReadWrite).insert(sample_record(1));
    } catch (const DatabaseError& error) {
      return error.kind() == Kind::Unwritable ? 0 : 2;
    }
    return 3;
  });
  fs::permissions(folder / "", fs::perms::owner_all);
  EXPECT_EQ(code, 0);
}

TEST(Rights, AFileThatMayNotBeReadIsATypedError) {
  TempFolder folder;
  const fs::path path = folder / "a.db";
  Store::open(path, Mode::Create);
  fs::permissions(path, fs::perms::none);
  fs::permissions(folder / "", fs::perms::all);
  const int code = in_child([&] {
    if (geteuid() == 0 && seteuid(65534) != 0) return 98;
    try {
      Store::open(path, Mode::ReadOnly);
    } catch (const DatabaseError& error) {
      return error.kind() == Kind::Unreadable ? 0 : 1;
    }
    return 2;
  });
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace tilewright::database::testing
