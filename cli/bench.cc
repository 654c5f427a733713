// tune-cli bench: the best kernels beside the peers, in turns in one run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/bench_gpu.h"
#include "cli/bench_report.h"
#include "cli/command.h"
#include "cli/lookup.h"
#include "cli/peer_library.h"
#include "cli/sizes.h"
#include "runtime/check.h"
#include "runtime/cpus.h"
#include "runtime/kernel.h"
#include "runtime/thread_pool.h"
#include "runtime/timer.h"

namespace tilewright::cli {
namespace {

constexpr const char* kDefaultSide = "default";
// Seconds. A default that is slower runs once instead of taking turns; one that is slower still
// keeps the time that it had when it was tuned.
constexpr double kSlowDefault = 0.02, kEndlessDefault = 1;

struct BenchArguments {
  CommonOptions common;
  Sizes sizes;
  int rounds = 7;
  uint64_t seed = 0;
};

// One side of a comparison; `rest` lets the next side have the cores to itself.
struct Side {
  std::string name;
  std::function<void()> run, rest;
  std::vector<double> medians;
  double seconds() const {
    std::vector<double> sorted = medians;
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? 0 : sorted[sorted.size() / 2];
  }
};

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

class Bench {
 public:
  Bench(const BenchArguments& a, const database::Store& store)
      : a_(a), store_(store), lookup_(a.common), pool_(lookup_.threads) {
    std::vector<std::string> problems;
    peers_ = PeerLibrary::discover(PeerLibrary::default_search_path(), problems);
    for (const std::string& p : problems) note(a.common, p);
    pin_current_thread(available_cpus().front());
  }

  BenchRow measure(const Workload& w);
  const std::vector<PeerLibrary>& peers() const { return peers_; }

 private:
  void take_turns(std::vector<Side>& sides) const;
  struct Default {
    Kernel kernel;
    double seconds;  // when it was tuned
  };
  std::optional<Default> stored_default(const Workload& w) const;

  const BenchArguments& a_;
  const database::Store& store_;
  Lookup lookup_;
  ThreadPool pool_;
  std::vector<PeerLibrary> peers_;
};

// The untuned default's kernel as the database keeps it: the newest one that was right.
std::optional<Bench::Default> Bench::stored_default(const Workload& w) const {
  std::optional<Default> found;
  for (const database::Record& r : lookup_.defaults(store_, w)) {
    if (r.threads != lookup_.threads) continue;
    if (auto artifact = store_.artifact(r)) {
      found = Default{stored_kernel(w, *artifact.value), r.median_seconds};
    }
  }
  return found;
}

void Bench::take_turns(std::vector<Side>& sides) const {
  TimingOptions options;
  options.max_seconds = 0.2;
  options.min_seconds = 0.03;
  options.warmup_seconds = 0.02;
  for (int round = 0; round < a_.rounds; ++round) {
    for (Side& side : sides) {
      side.medians.push_back(tilewright::measure(side.run, options).median);
      if (side.rest) side.rest();
    }
  }
}

BenchRow Bench::measure(const Workload& w) {
  BenchRow row{.workload = &w, .sizes = a_.sizes.of(w), .sized = at_sizes(w, a_.sizes.of(w))};
  database::BestResult best = lookup_.best_at(store_, w, row.sizes);
  if (!best.record || !best.artifact) {
    row.miss = best.miss;
    return row;
  }
  row.range = best.range;
  OperandSet operands(operands_of(w, row.sizes), a_.seed);
  Kernel kernel = stored_kernel(w, *best.artifact);
  BoundKernel bound(kernel, operands, dim_values(w, row.sizes), pool_);

  std::vector<Side> sides;
  sides.push_back({"tilewright", [&] { bound.run(); }, {}, {}});
  std::optional<Default> untuned = stored_default(w);
  std::optional<BoundKernel> untuned_bound;
  if (untuned) {
    untuned_bound.emplace(untuned->kernel, operands, dim_values(w, row.sizes), pool_);
    double expected = untuned->seconds * row.sized.flops / w.flops;
    if (expected < kSlowDefault) {
      sides.push_back({kDefaultSide, [&] { untuned_bound->run(); }, {}, {}});
    } else if (expected < kEndlessDefault) {
      double before = steady_seconds();
      untuned_bound->run();
      row.default_seconds = steady_seconds() - before;
    } else {
      row.default_seconds = expected;
    }
  }
  bound.run();
  HostArray& output = operands.output();
  std::vector<double> ours(output.count());
  for (int64_t i = 0; i < output.count(); ++i) ours[i] = output.get(i);
  std::vector<std::unique_ptr<PeerProblem>> problems;
  for (const PeerLibrary& peer : peers_) {
    std::vector<TilewrightPeerOperand> list;
    for (const OperandInfo& info : operands.infos()) {
      HostArray& array = operands.at(info.name);
      list.push_back({info.name.c_str(), array.data(), static_cast<size_t>(array.bytes())});
    }
    std::string reason;
    auto problem = peer.prepare(row.sized.canonical, lookup_.threads, list, reason);
    if (!problem) {
      row.absent[std::string(peer.name())] = reason;
      continue;
    }
    output.poison();
    problem->run();
    row.peers[std::string(peer.name())] = {.note = problem->implementation(),
                                           .reference = problem->is_reference(),
                                           .difference = relative_difference(ours, output)};
    PeerProblem* p = problem.get();
    const PeerLibrary* library = &peer;
    sides.push_back(
        {std::string(peer.name()), [p] { p->run(); }, [library] { library->quiesce(); }, {}});
    problems.push_back(std::move(problem));
  }
  take_turns(sides);
  row.seconds = sides[0].seconds();
  for (size_t i = 1; i < sides.size(); ++i) {
    bool is_default = sides[i].name == kDefaultSide;
    (is_default ? row.default_seconds : row.peers[sides[i].name].seconds) = sides[i].seconds();
  }
  return row;
}

BenchReport run_cpu(const BenchArguments& a, const std::vector<Workload>& workloads,
                    const database::Store& store) {
  BenchReport report;
  Bench bench(a, store);
  for (const PeerLibrary& p : bench.peers()) {
    report.peers.emplace_back(std::string(p.name()), std::string(p.version()));
  }
  for (const Workload& w : workloads) report.rows.push_back(bench.measure(w));
  return report;
}

int run_bench(const BenchArguments& a) {
  std::vector<Workload> workloads = read_workloads(a.common);
  a.sizes.require_known(workloads);
  database::Store store = open_store(a.common);
  Lookup lookup(a.common);
  BenchReport report = lookup.target.is_cuda()
                           ? bench_gpu(workloads, a.sizes, lookup, store, a.rounds, a.seed)
                           : run_cpu(a, workloads, store);
  if (a.common.json) {
    print_json(json_of(report, lookup.target, lookup.threads));
  } else {
    print_table(report, lookup.target, lookup.threads);
  }
  return report.any_wrong() ? kNoValidCandidate : kDone;
}

}  // namespace

void add_bench(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<BenchArguments>();
  CLI::App* sub = app.add_subcommand("bench", "Times the best kernels beside the peers, in turns");
  add_common(*sub, a->common, {.cuda = true, .trust = true});
  a->sizes.add_to(*sub);
  sub->add_option("--rounds", a->rounds, "Turns of each side")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  sub->add_option("--seed", a->seed, "Seed of the operands' values")->capture_default_str();
  sub->footer(
      "Examples:\n  tune-cli bench operators.json --db kernels.db --threads 1\n"
      "  tune-cli bench matmul:m=4096,n=4096,k=4096,dtype=f16 --target cuda:sm_90a");
  runners["bench"] = [a] { return run_bench(*a); };
}

}  // namespace tilewright::cli
