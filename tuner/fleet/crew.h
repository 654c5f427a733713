// Workers of machines that are alike, and the leases under which they hold jobs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tuner/fleet/hello.h"
#include "tuner/fleet/link.h"

namespace tilewright {

struct CrewOptions {
  double silence_seconds = 30;   // without a line from a busy worker it counts as lost
  double start_seconds = 60;     // until the hello of a worker that was started again
  double restart_seconds = 0.5;  // before a first start; doubles with each loss in a row
  int losses = 5;                // in a row, without an answer between them, until it is dropped
  int strikes = 3;               // refused answers until it is dropped
  int attempts = 5;              // lost workers until a job is given up
};

struct CrewCounts {
  int64_t answers = 0;   // that were accepted
  int64_t lost = 0;      // leases that a lost worker held: their jobs went to another
  int64_t refused = 0;   // lines that no honest worker sends
  int64_t repeated = 0;  // answers that a second worker had to confirm
  struct Dropped {
    std::string name, reason;
    std::string text() const;  // "ssh:build1: exit code 255"
  };
  std::vector<Dropped> dropped;
};
// All of them, in one line.
std::string text_of(const std::vector<CrewCounts::Dropped>& dropped);

// A job for any of the workers.
struct CrewJob {
  std::string kind;     // "trial", …
  std::string payload;  // JSON
  double seconds = 0;   // limit of its lease
  int avoid = -1;       // a worker that does not get it as long as there is another
};

// The judgement of an answer.
struct Judgement {
  enum class Kind : uint8_t {
    Accepted,
    Refused,  // `reason` says why: no honest worker sends it
    Again,    // another worker has to confirm it
  };
  Kind kind = Kind::Accepted;
  std::string reason = {};
  int liar = -1;  // another worker, whose earlier answer turned out false
};

// The user of a crew: makes jobs when a worker is free, and judges answers.
class CrewWork {
 public:
  virtual ~CrewWork() = default;
  // The job as of now. Nothing: it is not wanted any more.
  virtual std::optional<CrewJob> make(size_t index) = 0;
  // May throw FleetError or a JSON exception for an answer that makes no sense.
  virtual Judgement judge(size_t index, int worker, const nlohmann::json& answer) = 0;
  // Too many workers were lost with it.
  virtual void give_up(size_t index, const std::string& reason) = 0;
  // The bytes of an artifact by its SHA-256.
  virtual std::optional<std::string> artifact(const std::string& sha256) = 0;
};

// Invariant: each job of a run is pending, or held under one lease by one worker, or done; only the
// answer that names this lease is judged. Not thread-safe, and belongs to one thread.
class Crew {
 public:
  struct Member {
    std::unique_ptr<Link> link;  // that said this hello
    Hello hello;
  };

  Crew(std::vector<Member> members, Opening opening, const CrewOptions& options);
  // Ends all workers.
  ~Crew();
  Crew(Crew&&) = delete;

  // Has jobs 0 to `count` - 1 done, each once, or given up, or not made. Returns early when cancelled.
  // Throws FleetError when no worker is left.
  void run(size_t count, CrewWork& work, const std::atomic<bool>& cancelled);

  // Lets go all workers: their input ends.
  void close();
  size_t size() const;
  size_t living() const;  // workers that are not dropped
  const Hello& hello(size_t worker) const;
  const std::string& name(size_t worker) const;
  bool is_dropped(size_t worker) const;
  const CrewCounts& counts() const { return counts_; }

 private:
  struct Slot;
  struct Run;

  std::string start(Slot& slot);
  void watch(Slot& slot);
  void assign(Run& run);
  void hand_out(Run& run, Slot& slot, size_t job, const CrewJob& made);
  void look(Run& run, Slot& slot, bool writable);
  void read(Run& run, Slot& slot, const std::string& line);
  void answer(Run& run, Slot& slot, const nlohmann::json& line);
  void send_artifacts(Run& run, Slot& slot, const nlohmann::json& line);
  void welcome(Run& run, Slot& slot, const std::string& line);
  void judge(Run& run, Slot& slot, const nlohmann::json& answer);
  void check_times(Run& run);
  void lose(Run& run, Slot& slot, const std::string& reason);
  void refuse(Run& run, Slot& slot, const std::string& reason);
  void give_back(Run& run, Slot& slot, bool is_lost, const std::string& reason);
  void retire(Slot& slot, bool for_good, const std::string& reason);
  void abandon();
  [[noreturn]] void nobody_left() const;

  const Opening opening_;
  const CrewOptions options_;
  std::vector<std::unique_ptr<Slot>> slots_;
  UniqueFd events_;  // epoll
  uint64_t next_lease_ = 1;
  CrewCounts counts_;
};

}  // namespace tilewright
