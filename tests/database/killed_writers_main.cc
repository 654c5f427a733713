// Kills processes that write to one database:
//   killed_writers [KILLS [WRITERS [SEED]]]
//
// WRITERS processes store records with kernels in one file and report each over a pipe once it is
// committed. One of them, drawn at random, is killed by SIGKILL after a random delay and replaced.
// After every tenth kill, and at the end, all reported records must be there, sound, with their
// kernels. A new file is begun after 50 kills. Ends with 1 when a record is lost or damaged.
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>
#include <vector>

#include "tests/database/fixture.h"

namespace tilewright::database::testing {
namespace {

constexpr int kNumbersOfAWriter = 100000;
// SQLite wakes nobody who waits for a lock: among writers that never pause one may wait for long.
constexpr auto kPatience = std::chrono::minutes(2);
constexpr useconds_t kPause = 2000;  // microseconds between a writer's records

struct Writer {
  pid_t process = 0;
  int pipe = -1;
};

[[noreturn]] void store_forever(const fs::path& path, int first, int pipe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    Store store = Store::open(path, Mode::Create, kPatience);
    for (int number = first;; ++number) {
      Transaction transaction = store.begin();
      store_with_artifact(store, sample_record(number));
      transaction.commit();
      usleep(kPause);
      if (write(pipe, &number, sizeof number) != sizeof number) _exit(1);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "writer: {}\n", error.what());
    _exit(2);
  }
}

class Campaign {
 public:
  Campaign(int writers, uint64_t seed) : writers_(static_cast<size_t>(writers)), random_(seed) {}

  int run(int kills) {
    for (Writer& w : writers_) start(w);
    for (int kill = 1; kill <= kills && failures_ == 0; ++kill) {
      wait_a_moment();
      stop(writers_[random_() % writers_.size()], true);
      if (kill % 10 == 0) check();
    }
    for (Writer& w : writers_) stop(w, false);
    check();
    return failures_;
  }
  size_t reported() const { return reported_.size(); }
  size_t kept() const { return kept_; }

 private:
  void start(Writer& w) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    const int first = kNumbersOfAWriter * started_++;
    w.process = fork();
    if (w.process == 0) store_forever(folder_ / "a.db", first, ends[1]);
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    w.pipe = ends[0];
  }

  // A writer that ended by itself is a failure, too.
  void stop(Writer& w, bool replace) {
    int status = 0;
    if (waitpid(w.process, &status, WNOHANG) == 0) {
      kill(w.process, SIGKILL);
      waitpid(w.process, &status, 0);
    }
    if (!WIFSIGNALED(status)) fail("a writer ended by itself");
    read_reports(w);
    close(w.pipe);
    if (replace) start(w);
  }

  void read_reports(const Writer& w) {
    int number = 0;
    while (read(w.pipe, &number, sizeof number) == sizeof number) reported_.insert(number);
  }

  // Up to 20 ms, in which pipes are kept from filling up.
  void wait_a_moment() {
    usleep(static_cast<useconds_t>(random_() % 20000));
    for (const Writer& w : writers_) read_reports(w);
  }

  void check() {
    const std::set<int> wanted = reported_;
    const Store store = Store::open(folder_ / "a.db", Mode::ReadOnly, kPatience);
    std::set<int> found;
    const RecordList list = store.records();
    if (!list.skipped.empty()) fail("a record is damaged: " + to_string(list.skipped[0]));
    for (const Record& record : list.records) {
      found.insert(record.trial);
      if (!store.artifact(record.artifact_hash)) fail("a kernel is missing");
    }
    for (int number : wanted) {
      if (!found.contains(number)) fail(fmt::format("record {} is lost", number));
    }
    if (!store.check().ok()) fail("the database is damaged");
    kept_ = found.size();
  }

  void fail(const std::string& message) {
    ++failures_;
    fmt::print("{}\n", message);
  }

  TempFolder folder_;
  std::vector<Writer> writers_;
  std::mt19937_64 random_;
  std::set<int> reported_;
  size_t kept_ = 0;
  int started_ = 0, failures_ = 0;
};

}  // namespace
}  // namespace tilewright::database::testing

int main(int argc, char** argv) {
  const int kills = argc > 1 ? std::atoi(argv[1]) : 100;
  const int writers = argc > 2 ? std::atoi(argv[2]) : 8;
  const uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  // A file takes so many kills: looking through all of its records takes longer and longer.
  constexpr int kKillsOfAFile = 50;
  size_t reported = 0, kept = 0;
  int failures = 0;
  for (int done = 0; done < kills && failures == 0; done += kKillsOfAFile) {
    tilewright::database::testing::Campaign campaign(writers, seed + static_cast<uint64_t>(done));
    failures += campaign.run(std::min(kKillsOfAFile, kills - done));
    reported += campaign.reported();
    kept += campaign.kept();
  }
  fmt::print("{} kills, {} writers, {} records reported, {} kept, {} failures\n", kills, writers,
             reported, kept, failures);
  return failures == 0 ? 0 : 1;
}
