#include "cli/bench/bench_job.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "ir/ops/spec.h"
#include "runtime/check/check.h"
#include "runtime/machine/cpu_claim.h"
#include "runtime/machine/peak.h"
#include "runtime/machine/timer.h"
#include "runtime/peers/peer_library.h"
#include "runtime/worker/worker.h"
#include "sandbox/seccomp.h"

namespace tilewright::cli {
namespace {

using SortedJson = nlohmann::json;

constexpr const char* kDefaultSide = "default";
// Seconds. A default that is slower runs once instead of taking turns; one that is slower still
// keeps the time that it had when it was tuned.
constexpr double kSlowDefault = 0.02, kEndlessDefault = 1;

SortedJson kernel_json(const BenchKernel& k) {
  return {{"object", to_base64(k.object)}, {"description", k.description.to_json()}};
}

BenchKernel kernel_from(const SortedJson& j) {
  std::optional<std::string> object = from_base64(j.at("object").get<std::string>());
  if (!object) throw Error("bench job: its object is no base64");
  return {std::move(*object), KernelDescription::from_json(j.at("description").get<std::string>())};
}

BenchJob job_from(const std::string& text) {
  const SortedJson j = SortedJson::parse(text);
  BenchJob job{.kernel = kernel_from(j.at("kernel"))};
  if (j.contains("untuned")) job.untuned = kernel_from(j.at("untuned"));
  j.at("untuned_seconds").get_to(job.untuned_seconds);
  j.at("workload").get_to(job.workload);
  j.at("sized").get_to(job.sized);
  j.at("dims").get_to(job.dims);
  j.at("seed").get_to(job.seed);
  j.at("threads").get_to(job.threads);
  j.at("rounds").get_to(job.rounds);
  return job;
}

std::string times_json(const BenchTimes& times) {
  SortedJson peers = SortedJson::object();
  for (const auto& [name, p] : times.peers) {
    peers[name] = {{"seconds", p.seconds}, {"note", p.note}, {"reference", p.reference}};
    if (std::isfinite(p.difference.value_or(NAN))) peers[name]["difference"] = *p.difference;
  }
  SortedJson j = {{"seconds", times.seconds},
                  {"default_seconds", times.default_seconds},
                  {"peers", peers},
                  {"disturbed", times.disturbed},
                  {"absent", times.absent}};
  return j.dump(-1, ' ', false, SortedJson::error_handler_t::replace);
}

// Opened once a process.
struct Peers {
  std::vector<std::string> problems;
  std::vector<PeerLibrary> libraries =
      PeerLibrary::discover(PeerLibrary::default_search_path(), problems);
};

const Peers& peers_here() {
  static const Peers peers;
  return peers;
}

// One side of a comparison; `rest` lets the next side have the cores to itself.
struct Side {
  std::string name;
  int threads = 0;  // of ours, which are the calling one and the pool's; 0: a peer's own
  std::function<void()> run, rest;
};

// A turn of each side.
struct Round {
  std::vector<double> seconds;  // medians, in the order of the sides
  double reference = 0;         // of a loop that is the same in each round
  std::string disturbed;        // what else had the processors; empty: nothing
};

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// The fastest of a few runs of a loop that does nothing but compute.
double reference_seconds() {
  constexpr int64_t kIterations = 20'000;
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i) {
    const double begin = steady_seconds();
    run_peak_loop(kIterations);
    fastest = std::min(fastest, steady_seconds() - begin);
  }
  return fastest;
}

Round take_turn(const std::vector<Side>& sides) {
  TimingOptions options;
  options.max_seconds = 0.2;
  options.min_seconds = 0.03;
  options.warmup_seconds = 0.02;
  Round round;
  round.reference = reference_seconds();
  for (const Side& side : sides) {
    options.threads = side.threads;
    const Timing timing = tilewright::measure(side.run, options);
    round.seconds.push_back(timing.median);
    if (round.disturbed.empty()) round.disturbed = timing.disturbed;
    if (side.rest) side.rest();
  }
  return round;
}

// Marks rounds in which the reference loop was slow beside the fastest of all rounds.
void compare_references(std::vector<Round>& rounds) {
  constexpr double kSlower = 1.1;
  double fastest = std::numeric_limits<double>::infinity();
  for (const Round& r : rounds) fastest = std::min(fastest, r.reference);
  for (Round& r : rounds) {
    if (!r.disturbed.empty() || r.reference <= kSlower * fastest) continue;
    r.disturbed = "a constant loop took longer in some rounds than in others";
  }
}

// The rounds that count: as many that nothing disturbed as there are wanted, for which twice as many
// are tried. Where not even half of those wanted are such, all count, and `disturbed` says why.
std::vector<Round> take_turns(const std::vector<Side>& sides, int wanted, std::string& disturbed) {
  std::vector<Round> rounds, quiet;
  const auto count = [](const auto& list) { return static_cast<int>(list.size()); };
  while (count(quiet) < wanted && count(rounds) < 2 * wanted) {
    rounds.push_back(take_turn(sides));
    compare_references(rounds);
    quiet.clear();
    std::copy_if(rounds.begin(), rounds.end(), std::back_inserter(quiet),
                 [](const Round& r) { return r.disturbed.empty(); });
  }
  if (2 * count(quiet) >= wanted) return quiet;
  for (const Round& r : rounds) {
    if (!r.disturbed.empty()) disturbed = r.disturbed;
  }
  return rounds;
}

// The root of the mean square of the differences, over that of `ours`; NaN where `theirs` has one.
double relative_difference(const std::vector<double>& ours, const HostArray& theirs) {
  double squares = 0, differences = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    const double difference = theirs.get(static_cast<int64_t>(i)) - ours[i];
    squares += ours[i] * ours[i];
    differences += difference * difference;
  }
  if (differences == 0) return 0;
  return std::sqrt(differences / squares);
}

class Contest {
 public:
  explicit Contest(const BenchJob& job)
      : job_(job), workload_(parse_workload(job.workload)),
        operands_(operands_of(workload_, job.dims), job.seed), pool_(job.threads) {
    caller_.pin();
  }

  BenchTimes run() {
    prepare_peers();
    confine_process();
    retire_worker();
    Kernel kernel(job_.kernel.object, job_.kernel.description);
    BoundKernel bound(kernel, operands_, dim_values(workload_, job_.dims), pool_);
    sides_.push_back({"tilewright", job_.threads, [&] { bound.run(); }, {}});
    std::optional<Kernel> untuned;
    std::optional<BoundKernel> untuned_bound;
    if (job_.untuned) {
      untuned.emplace(job_.untuned->object, job_.untuned->description);
      untuned_bound.emplace(*untuned, operands_, dim_values(workload_, job_.dims), pool_);
      add_default(*untuned_bound);
    }
    bound.run();
    add_peers();
    const std::vector<Round> rounds = take_turns(sides_, job_.rounds, times_.disturbed);
    for (size_t i = 0; i < sides_.size(); ++i) {
      std::vector<double> turns;
      for (const Round& round : rounds) turns.push_back(round.seconds[i]);
      seconds_of(sides_[i].name) = median_of(std::move(turns));
    }
    return times_;
  }

 private:
  struct Prepared {
    const PeerLibrary* library;
    std::unique_ptr<PeerProblem> problem;
  };

  double& seconds_of(const std::string& side) {
    if (side == sides_.front().name) return times_.seconds;
    return side == kDefaultSide ? times_.default_seconds : times_.peers[side].seconds;
  }

  // Each runs once: what a library opens and starts, it has by then.
  void prepare_peers() {
    std::vector<TilewrightPeerOperand> list;
    for (const OperandInfo& info : operands_.infos()) {
      HostArray& array = operands_.at(info.name);
      list.push_back({info.name.c_str(), array.data(), static_cast<size_t>(array.bytes())});
    }
    for (const PeerLibrary& peer : peers_here().libraries) {
      std::string reason;
      auto problem = peer.prepare(job_.sized, job_.threads, list, reason);
      if (!problem) {
        times_.absent[std::string(peer.name())] = reason;
        continue;
      }
      problem->run();
      peer.quiesce();
      prepared_.push_back({&peer, std::move(problem)});
    }
  }

  void add_default(BoundKernel& bound) {
    if (job_.untuned_seconds < kSlowDefault) {
      sides_.push_back({kDefaultSide, job_.threads, [&bound] { bound.run(); }, {}});
    } else if (job_.untuned_seconds < kEndlessDefault) {
      times_.default_seconds = seconds_of_run([&] { bound.run(); }, job_.threads);
    } else {
      times_.default_seconds = job_.untuned_seconds;
    }
  }

  // Requires that our kernel has just run.
  void add_peers() {
    HostArray& output = operands_.output();
    std::vector<double> ours(static_cast<size_t>(output.count()));
    for (int64_t i = 0; i < output.count(); ++i) ours[static_cast<size_t>(i)] = output.get(i);
    for (Prepared& p : prepared_) {
      output.poison();
      p.problem->run();
      const std::string name(p.library->name());
      times_.peers[name] = {.note = p.problem->implementation(),
                            .reference = p.problem->is_reference(),
                            .difference = relative_difference(ours, output)};
      sides_.push_back({name, 0, [problem = p.problem.get()] { problem->run(); },
                        [library = p.library] { library->quiesce(); }});
    }
  }

  const BenchJob& job_;
  Workload workload_;
  OperandSet operands_;
  ThreadPool pool_;
  CpuClaim caller_ = CpuClaim::take();
  std::vector<Prepared> prepared_;
  std::vector<Side> sides_;
  BenchTimes times_;
};

}  // namespace

std::string to_json(const BenchJob& job) {
  SortedJson j = {{"kernel", kernel_json(job.kernel)},
                  {"untuned_seconds", job.untuned_seconds},
                  {"workload", job.workload},
                  {"sized", job.sized},
                  {"dims", job.dims},
                  {"seed", job.seed},
                  {"threads", job.threads},
                  {"rounds", job.rounds}};
  if (job.untuned) j["untuned"] = kernel_json(*job.untuned);
  return j.dump();
}

BenchTimes bench_times_from_json(const std::string& text) {
  const SortedJson j = SortedJson::parse(text);
  BenchTimes times;
  j.at("seconds").get_to(times.seconds);
  j.at("default_seconds").get_to(times.default_seconds);
  j.at("absent").get_to(times.absent);
  j.at("disturbed").get_to(times.disturbed);
  for (const auto& [name, p] : j.at("peers").items()) {
    times.peers[name] = {.seconds = p.at("seconds"),
                         .note = p.at("note"),
                         .reference = p.at("reference"),
                         .difference = p.value("difference", std::nan(""))};
  }
  return times;
}

BenchPeers bench_peers_from_json(const std::string& text) {
  const SortedJson j = SortedJson::parse(text);
  return {j.at("versions"), j.at("problems")};
}

std::string handle_bench(const std::string& payload) {
  const BenchJob job = job_from(payload);
  return times_json(Contest(job).run());
}

std::string handle_peers(const std::string&) {
  BenchPeers found{{}, peers_here().problems};
  for (const PeerLibrary& p : peers_here().libraries) {
    found.versions.emplace_back(std::string(p.name()), std::string(p.version()));
  }
  return SortedJson{{"versions", found.versions}, {"problems", found.problems}}.dump(
      -1, ' ', false, SortedJson::error_handler_t::replace);
}

}  // namespace tilewright::cli
