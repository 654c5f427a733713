#include "tuner/fleet/fleet.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <map>

#include "runtime/machine/timer.h"

namespace tilewright {
namespace {

constexpr int kGatherMs = 100;
constexpr double kSaySeconds = 10;
constexpr size_t kFilesEach = 2;  // descriptors

// Two descriptors a worker may be more than a shell allows by default.
void allow_descriptors(size_t workers) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = workers * kFilesEach + 256;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(limit.rlim_max, wanted);
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Workers that were started and did not say hello yet.
class Gathering {
 public:
  Gathering(const std::vector<Place>& places, const FleetOptions& options, Fleet& fleet)
      : options_(options), fleet_(fleet) {
    allow_descriptors(places.size());
    for (const Place& place : places) {
      auto link = std::make_unique<Link>(place);
      if (const std::string why = link->start(); !why.empty()) {
        fleet_.absent.push_back({place.name, why});
        continue;
      }
      link->send(opening_line(options.opening));
      waiting_.push_back({std::move(link), {}});
    }
  }

  bool is_over() const { return waiting_.empty(); }
  std::vector<Crew::Member>& members() { return members_; }

  void look() {
    std::vector<pollfd> events;
    for (const auto& [link, greeting] : waiting_) events.push_back({link->fd(), POLLIN, 0});
    poll(events.data(), events.size(), kGatherMs);
    for (size_t i = 0; i < waiting_.size(); ++i) {
      if (events[i].revents != 0) read(waiting_[i]);
    }
    std::erase_if(waiting_, [](const Waiting& w) { return !w.link; });
  }
  std::string awaited() const {
    std::vector<std::string> names;
    for (const auto& [link, greeting] : waiting_) {
      if (names.size() < 5) names.push_back(link->place().name);
    }
    return fmt::format("waiting for {} of {} workers: {}{}", waiting_.size(),
                       waiting_.size() + members_.size(), fmt::join(names, ", "),
                       waiting_.size() > names.size() ? ", ..." : "");
  }
  void give_up() {
    for (Waiting& w : waiting_) {
      absent(w, fmt::format("no hello within {:.0f} s", options_.hello_seconds));
    }
    waiting_.clear();
  }

 private:
  struct Waiting {
    std::unique_ptr<Link> link;
    Greeting greeting;
  };

  void absent(Waiting& w, const std::string& why) {
    fleet_.absent.push_back({w.link->place().name, why});
    w.link.reset();
  }

  void read(Waiting& w) {
    const bool open = w.link->receive();
    while (const auto line = w.link->next_line()) {
      if (w.greeting.has(*line)) continue;
      try {
        Hello hello = read_hello(*line, options_.opening);
        if (options_.threads > hello.cores) {
          throw FleetError(
              fmt::format("it has {} cores, --threads asks for {}", hello.cores, options_.threads));
        }
        members_.push_back({std::move(w.link), std::move(hello)});
      } catch (const FleetError& e) {
        absent(w, e.what());
      }
      return;
    }
    if (w.link->overflows()) return absent(w, "its first line has no end");
    if (!open) absent(w, w.link->ending());
  }

  const FleetOptions& options_;
  Fleet& fleet_;
  std::vector<Waiting> waiting_;
  std::vector<Crew::Member> members_;
};

// The cores that a worker has to itself, by the one that has the fewest.
int threads_each(const std::vector<Crew::Member>& members) {
  std::map<std::string, int> on_host;
  for (const Crew::Member& m : members) ++on_host[m.hello.host];
  int least = members[0].hello.cores;
  for (const Crew::Member& m : members) {
    least = std::min(least, m.hello.cores / on_host[m.hello.host]);
  }
  return std::max(1, least);
}

}  // namespace

Fleet gather_fleet(const std::vector<Place>& places, const FleetOptions& options,
                   const std::atomic<bool>& cancelled,
                   const std::function<void(const std::string&)>& waits) {
  Fleet fleet;
  Gathering gathering(places, options, fleet);
  const double begin = steady_seconds();
  double said = begin;
  while (!gathering.is_over() && steady_seconds() - begin < options.hello_seconds) {
    if (cancelled) return fleet;
    gathering.look();
    if (gathering.is_over() || steady_seconds() - said < kSaySeconds) continue;
    said = steady_seconds();
    waits(gathering.awaited());
  }
  gathering.give_up();
  std::map<std::string, std::pair<database::TargetIdentity, std::vector<Crew::Member>>> alike;
  for (Crew::Member& m : gathering.members()) {
    const TargetFacts& f = m.hello.facts;
    const auto identity = database::make_target(f.chip, f.features, f.cores, f.extra);
    // A hypervisor may hide an extension that only intrinsics use: the identity does not have it.
    auto& [known, members] =
        alike[fmt::format("{} {}", identity.hash, fmt::join(m.hello.target.extensions, " "))];
    known = identity;
    members.push_back(std::move(m));
    ++fleet.workers;
  }
  for (auto& [key, group] : alike) {
    auto& [identity, members] = group;
    const Target target = members[0].hello.target;
    const int threads = !target.has_threads   ? 1
                        : options.threads > 0 ? options.threads
                                              : threads_each(members);
    fleet.groups.push_back(
        {identity, target, threads,
         std::make_unique<Crew>(std::move(members), options.opening, options.crew)});
  }
  if (!fleet.groups.empty()) return fleet;
  throw FleetError(fmt::format("--workers: no worker began. {}", text_of(fleet.absent)));
}

}  // namespace tilewright
