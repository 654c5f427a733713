#include "tuner/fleet/crew.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/utf8.h"
#include "runtime/machine/timer.h"

namespace tilewright {
namespace {

using nlohmann::json;

constexpr double kLookSeconds = 0.1;  // between two looks at the clock's limits
constexpr int kCloseMs = 3000;        // all workers together, until they are killed

}  // namespace

struct Crew::Slot {
  enum class State : uint8_t { Idle, Busy, Starting, Waiting, Dropped };

  size_t index = 0;
  std::unique_ptr<Link> link;
  Hello hello = {};
  State state = State::Idle;
  uint64_t lease = 0;  // Busy
  size_t job = 0;      // Busy
  double heard = 0;    // when the last line came
  double until = 0;    // Busy: end of the lease. Starting: of patience. Waiting: the next start
  Greeting greeting;   // Starting
  int losses = 0;      // in a row
  int strikes = 0;
};

struct Crew::Run {
  struct Job {
    bool done = false;
    int attempts = 0;
    int avoid = -1;
  };
  CrewWork& work;
  const std::atomic<bool>& cancelled;
  std::vector<Job> jobs;
  std::deque<size_t> pending;
  size_t left;  // not done

  void finish(size_t job) {
    jobs[job].done = true;
    --left;
  }
};

Crew::Crew(std::vector<Member> members, Opening opening, const CrewOptions& options)
    : opening_(std::move(opening)), options_(options), events_(epoll_create1(EPOLL_CLOEXEC)) {
  for (Member& m : members) {
    auto slot = std::make_unique<Slot>();
    slot->index = slots_.size();
    slot->link = std::move(m.link);
    slot->hello = std::move(m.hello);
    watch(*slot);
    slots_.push_back(std::move(slot));
  }
}

Crew::~Crew() { close(); }

size_t Crew::size() const { return slots_.size(); }
const Hello& Crew::hello(size_t worker) const { return slots_[worker]->hello; }
const std::string& Crew::name(size_t worker) const { return slots_[worker]->link->place().name; }
bool Crew::is_dropped(size_t worker) const { return slots_[worker]->state == Slot::State::Dropped; }
size_t Crew::living() const {
  return static_cast<size_t>(std::ranges::count_if(
      slots_, [](const auto& s) { return s->state != Slot::State::Dropped; }));
}

void Crew::watch(Slot& slot) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = slot.index}};
  epoll_ctl(events_.get(), EPOLL_CTL_ADD, slot.link->fd(), &event);
}

void Crew::close() {
  for (auto& slot : slots_) {
    if (slot->link->running()) slot->link->close_input();
  }
  const auto all_ended = [&] {
    return std::ranges::all_of(
        slots_, [](const auto& s) { return !s->link->running() || s->link->has_ended(); });
  };
  for (int waited = 0; !all_ended() && waited < kCloseMs; waited += 10) ::poll(nullptr, 0, 10);
  for (auto& slot : slots_) {
    if (slot->link->running()) slot->link->ending();
  }
}

std::string CrewCounts::Dropped::text() const { return fmt::format("{}: {}", name, reason); }

std::string text_of(const std::vector<CrewCounts::Dropped>& dropped) {
  std::string text;
  for (const CrewCounts::Dropped& d : dropped) text += (text.empty() ? "" : "; ") + d.text();
  return text;
}

void Crew::nobody_left() const {
  throw FleetError(fmt::format(
      "--workers: no worker is left; all finished trials are kept, and the same command with "
      "--resume goes on. {}",
      text_of(counts_.dropped)));
}

// Why it does not start, or "".
std::string Crew::start(Slot& slot) {
  if (std::string why = slot.link->start(); !why.empty()) return why;
  slot.state = Slot::State::Starting;
  slot.greeting = {};
  slot.heard = steady_seconds();
  slot.until = slot.heard + options_.start_seconds;
  watch(slot);
  slot.link->send(opening_line(opening_));
  return "";
}

void Crew::retire(Slot& slot, bool for_good, const std::string& reason) {
  if (slot.link->running()) slot.link->ending();
  if (for_good) {
    slot.state = Slot::State::Dropped;
    counts_.dropped.push_back({slot.link->place().name, reason});
    spdlog::warn("{} is dropped: {}", slot.link->place().name, reason);
    return;
  }
  slot.state = Slot::State::Waiting;
  const double wait = options_.restart_seconds * std::exp2(std::min(slot.losses, 6));
  slot.until = steady_seconds() + wait;
}

// The job goes back to those that wait, unless too many workers were lost with it.
void Crew::give_back(Run& run, Slot& slot, bool is_lost, const std::string& reason) {
  const size_t job = slot.job;
  slot.lease = 0;
  run.jobs[job].attempts += is_lost ? 1 : 0;
  if (run.jobs[job].attempts < options_.attempts) {
    run.pending.push_front(job);
    return;
  }
  run.work.give_up(job, reason);
  run.finish(job);
}

void Crew::lose(Run& run, Slot& slot, const std::string& reason) {
  if (slot.state == Slot::State::Busy) {
    ++counts_.lost;
    give_back(run, slot, true, reason);
  }
  spdlog::debug("{} is lost: {}", slot.link->place().name, reason);
  retire(slot, ++slot.losses >= options_.losses, reason);
}

void Crew::refuse(Run& run, Slot& slot, const std::string& reason) {
  if (slot.state == Slot::State::Busy) give_back(run, slot, false, reason);
  ++counts_.refused;
  spdlog::warn("{}: refused: {}", slot.link->place().name, reason);
  retire(slot, ++slot.strikes >= options_.strikes, "it sent what no worker sends: " + reason);
}

void Crew::hand_out(Run& run, Slot& slot, size_t job, const CrewJob& made) {
  run.jobs[job].avoid = made.avoid;
  slot.state = Slot::State::Busy;
  slot.job = job;
  slot.lease = next_lease_++;
  slot.heard = steady_seconds();
  slot.until = slot.heard + made.seconds;
  slot.link->send(
      fmt::format(R"({{"lease":{},"kind":"{}","job":{}}})", slot.lease, made.kind, made.payload));
}

void Crew::assign(Run& run) {
  for (auto& slot : slots_) {
    if (run.pending.empty()) return;
    if (slot->state != Slot::State::Idle) continue;
    // Most jobs take any worker: the first one is nearly always taken.
    for (size_t i = 0; i < run.pending.size() && slot->state == Slot::State::Idle;) {
      const size_t job = run.pending[i];
      const bool avoided = run.jobs[job].avoid == static_cast<int>(slot->index) && living() > 1;
      if (avoided) {
        ++i;
        continue;
      }
      run.pending.erase(run.pending.begin() + static_cast<std::ptrdiff_t>(i));
      const std::optional<CrewJob> made = run.work.make(job);
      if (made) {
        hand_out(run, *slot, job, *made);
      } else {
        run.finish(job);
      }
    }
  }
}

// The hello of a worker that was started again.
void Crew::welcome(Run& run, Slot& slot, const std::string& line) {
  if (slot.greeting.has(line)) return;
  try {
    const Hello hello = read_hello(line, opening_);
    const TargetFacts &now = hello.facts, &before = slot.hello.facts;
    if (now.chip != before.chip || now.extra != before.extra) {
      throw FleetError(fmt::format("it is another machine now: '{}'", now.chip));
    }
    slot.hello = hello;
    slot.state = Slot::State::Idle;
  } catch (const FleetError& e) {
    lose(run, slot, e.what());
  }
}

void Crew::send_artifacts(Run& run, Slot& slot, const json& line) {
  for (const json& entry : line["need"]) {
    const auto bytes = entry.is_string() ? run.work.artifact(entry) : std::nullopt;
    if (!bytes) return refuse(run, slot, "it asks for an artifact that its job does not have");
    const json sent = {{"sha256", entry}, {"bytes", bytes->size()}, {"data", to_base64(*bytes)}};
    slot.link->send(json{{"artifact", sent}}.dump());
  }
}

void Crew::judge(Run& run, Slot& slot, const json& answer) {
  const size_t job = slot.job;
  Judgement judged;
  try {
    judged = run.work.judge(job, static_cast<int>(slot.index), answer);
  } catch (const json::exception& e) {
    judged = {Judgement::Kind::Refused, fmt::format("a malformed answer ({})", e.what())};
  } catch (const FleetError& e) {
    judged = {Judgement::Kind::Refused, e.what()};
  }
  if (judged.kind == Judgement::Kind::Refused) return refuse(run, slot, judged.reason);
  slot.state = Slot::State::Idle;
  slot.lease = 0;
  slot.losses = 0;
  if (judged.kind == Judgement::Kind::Again) {
    ++counts_.repeated;
    run.jobs[job].avoid = static_cast<int>(slot.index);
    run.pending.push_front(job);
    return;
  }
  ++counts_.answers;
  run.finish(job);
  if (judged.liar >= 0) {
    Slot& liar = *slots_[static_cast<size_t>(judged.liar)];
    if (liar.state != Slot::State::Dropped) refuse(run, liar, judged.reason);
  }
}

void Crew::answer(Run& run, Slot& slot, const json& line) {
  const json& lease = line["lease"];
  if (slot.state != Slot::State::Busy || lease != slot.lease) {
    return refuse(
        run, slot,
        fmt::format("an answer of lease {}, which it does not hold", lease.dump().substr(0, 40)));
  }
  if (line.contains("need") && line["need"].is_array()) return send_artifacts(run, slot, line);
  if (line.contains("error") && line["error"].is_string()) {
    return lose(run, slot, to_utf8(line["error"].get<std::string>().substr(0, 400)));
  }
  if (!line.contains("result")) return refuse(run, slot, "an answer without a result");
  judge(run, slot, line["result"]);
}

void Crew::read(Run& run, Slot& slot, const std::string& text) {
  slot.heard = steady_seconds();
  if (slot.state == Slot::State::Starting) return welcome(run, slot, text);
  const json line = json::parse(text, nullptr, false);
  if (line.is_object() && line.contains("lease")) return answer(run, slot, line);
  if (line.is_object() && line.contains("beat")) return;
  refuse(run, slot, fmt::format("no line of a worker: '{}'", to_utf8(text.substr(0, 60))));
}

void Crew::look(Run& run, Slot& slot, bool writable) {
  if (!slot.link->running()) return;
  if (writable) slot.link->flush();
  const bool open = slot.link->receive();
  while (slot.link->running()) {
    const std::optional<std::string> line = slot.link->next_line();
    if (!line) break;
    read(run, slot, *line);
  }
  if (!slot.link->running()) return;
  if (slot.link->overflows()) return refuse(run, slot, "a line without an end");
  if (!open) lose(run, slot, slot.link->ending());
}

void Crew::check_times(Run& run) {
  const double now = steady_seconds();
  for (auto& slot : slots_) {
    if (slot->state == Slot::State::Busy && now >= slot->until) {
      lose(run, *slot, "its lease ended before it answered");
    } else if (slot->state == Slot::State::Busy && now - slot->heard > options_.silence_seconds) {
      lose(run, *slot, fmt::format("silent for {:.3g} s", now - slot->heard));
    } else if (slot->state == Slot::State::Starting && now >= slot->until) {
      lose(run, *slot, fmt::format("no hello within {:.3g} s", options_.start_seconds));
    } else if (slot->state == Slot::State::Waiting && now >= slot->until) {
      if (const std::string why = start(*slot); !why.empty()) lose(run, *slot, why);
    }
  }
}

// After a cancellation: workers forget their jobs only with their lives.
void Crew::abandon() {
  for (auto& slot : slots_) {
    if (slot->state == Slot::State::Busy) retire(*slot, false, "cancelled");
  }
}

void Crew::run(size_t count, CrewWork& work, const std::atomic<bool>& cancelled) {
  Run run{work, cancelled, std::vector<Run::Job>(count), {}, count};
  for (size_t i = 0; i < count; ++i) run.pending.push_back(i);
  double looked = 0;
  std::array<epoll_event, 256> events;
  while (run.left > 0) {
    if (cancelled) return abandon();
    assign(run);
    if (run.left == 0) return;
    if (living() == 0) nobody_left();
    for (auto& slot : slots_) {
      if (!slot->link->running() || !slot->link->sends()) continue;
      epoll_event event{.events = EPOLLIN | EPOLLOUT, .data = {.u64 = slot->index}};
      epoll_ctl(events_.get(), EPOLL_CTL_MOD, slot->link->fd(), &event);
    }
    const int got = epoll_wait(events_.get(), events.data(), events.size(),
                               static_cast<int>(kLookSeconds * 1000));
    for (int i = 0; i < got; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      Slot& slot = *slots_[event.data.u64];
      look(run, slot, (event.events & EPOLLOUT) != 0);
      if (slot.link->running() && (event.events & EPOLLOUT) != 0 && !slot.link->sends()) {
        epoll_event reading{.events = EPOLLIN, .data = {.u64 = slot.index}};
        epoll_ctl(events_.get(), EPOLL_CTL_MOD, slot.link->fd(), &reading);
      }
    }
    if (steady_seconds() - looked < kLookSeconds) continue;
    looked = steady_seconds();
    check_times(run);
  }
}

}  // namespace tilewright
