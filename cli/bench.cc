// tune-cli bench: the best kernels beside the peers, in turns in one run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"
#include "cli/lookup.h"
#include "cli/peer_library.h"
#include "cli/progress.h"
#include "cli/roofline.h"
#include "cli/sizes.h"
#include "runtime/check.h"
#include "runtime/cpus.h"
#include "runtime/kernel.h"
#include "runtime/thread_pool.h"
#include "runtime/timer.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

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

struct Row {
  const Workload* workload;
  std::map<std::string, int64_t> sizes;  // of its dynamic dimensions
  Workload sized;                        // at these, with no range left: what peers can take
  std::string miss;
  double seconds = 0, default_seconds = 0;  // 0: not there
  std::map<std::string, double> peers;
  std::map<std::string, std::string> absent;  // peers that do not have the operator, with reasons
};

class Bench {
 public:
  Bench(const BenchArguments& a, const database::Store& store)
      : a_(a), store_(store), lookup_(a.common), pool_(lookup_.threads) {
    std::vector<std::string> problems;
    peers_ = PeerLibrary::discover(PeerLibrary::default_search_path(), problems);
    for (const std::string& p : problems) note(a.common, p);
    pin_current_thread(available_cpus().front());
  }

  Row measure(const Workload& w);
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
  database::RecordFilter filter;
  filter.workload_hash = w.hash();
  filter.target_hash = lookup_.identity.hash;
  filter.verdict = database::Verdict::Valid;
  std::optional<Default> found;
  for (const database::Record& r : store_.records(filter).records) {
    if (!r.is_default || r.threads != lookup_.threads) continue;
    if (auto artifact = store_.artifact(r.artifact_hash)) {
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

Row Bench::measure(const Workload& w) {
  Row row{&w, a_.sizes.of(w), at_sizes(w, a_.sizes.of(w)), {}, 0, 0, {}, {}};
  database::BestResult best = lookup_.best(store_, w);
  if (!best.record || !best.artifact) {
    row.miss = best.miss;
    return row;
  }
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
    (is_default ? row.default_seconds : row.peers[sides[i].name]) = sides[i].seconds();
  }
  return row;
}

Json json_of(const Row& row, int threads) {
  Json j = {{"spec", spec_to_inline(parse_spec(row.workload->canonical))},
            {"name", row.workload->label},
            {"threads", threads}};
  if (!row.sizes.empty()) j["dims"] = row.sizes;
  if (!row.miss.empty()) {
    j["miss"] = row.miss;
    return j;
  }
  j["seconds"] = row.seconds;
  j["gflops"] = row.sized.flops / row.seconds * 1e-9;
  j["roofline_fraction"] = roofline_of(row.sized, threads).seconds / row.seconds;
  j["default_seconds"] = row.default_seconds > 0 ? Json(row.default_seconds) : Json(nullptr);
  Json peers = Json::object(), ratio = Json::object();
  for (const auto& [name, seconds] : row.peers) {
    peers[name] = {{"seconds", seconds}};
    ratio[name] = seconds / row.seconds;
  }
  j["peers"] = peers;
  j["ratio"] = ratio;
  j["absent"] = row.absent;
  return j;
}

void print_table(const std::vector<Row>& rows, const Bench& bench, int threads) {
  fmt::print("{:<44} {:>11} {:>8} {:>8} {:>9}", "workload", "seconds", "GFLOP/s", "roofline",
             "default");
  for (const PeerLibrary& p : bench.peers()) fmt::print(" {:>12}", p.name());
  fmt::print("\n");
  std::map<std::string, std::pair<double, int>> logs;
  for (const Row& row : rows) {
    std::string name = spec_to_inline(parse_spec(row.sized.canonical));
    if (!row.workload->label.empty()) name.insert(0, row.workload->label + " ");
    if (!row.miss.empty()) {
      fmt::print("{:<44} miss: {}\n", name.substr(0, 44), row.miss);
      continue;
    }
    std::string gain =
        row.default_seconds > 0 ? fmt::format("{:.1f}x", row.default_seconds / row.seconds) : "-";
    fmt::print("{:<44} {:>11} {:>8.1f} {:>7.0f}% {:>9}", name.substr(0, 44),
               readable_seconds(row.seconds), row.sized.flops / row.seconds * 1e-9,
               100 * roofline_of(row.sized, threads).seconds / row.seconds, gain);
    for (const PeerLibrary& p : bench.peers()) {
      auto it = row.peers.find(std::string(p.name()));
      if (it == row.peers.end()) {
        fmt::print(" {:>12}", "-");
        continue;
      }
      double ratio = it->second / row.seconds;
      logs[std::string(p.name())].first += std::log(ratio);
      ++logs[std::string(p.name())].second;
      fmt::print(" {:>11.2f}x", ratio);
    }
    fmt::print("\n");
  }
  fmt::print("{:<82}", "geometric mean (over 1: tilewright is faster)");
  for (const PeerLibrary& p : bench.peers()) {
    auto [sum, count] = logs[std::string(p.name())];
    fmt::print(" {:>12}", count ? fmt::format("{:.2f}x", std::exp(sum / count)) : "-");
  }
  fmt::print("\n");
  for (const PeerLibrary& p : bench.peers()) fmt::print("{}: {}\n", p.name(), p.version());
}

int run_bench(const BenchArguments& a) {
  std::vector<Workload> workloads = read_workloads(a.common);
  a.sizes.require_known(workloads);
  database::Store store = database::Store::open(a.common.db, database::Mode::ReadOnly);
  Bench bench(a, store);
  std::vector<Row> rows;
  Json list = Json::array();
  for (const Workload& w : workloads) {
    rows.push_back(bench.measure(w));
    list.push_back(json_of(rows.back(), thread_count(a.common)));
  }
  if (a.common.json) {
    Json versions = Json::object();
    for (const PeerLibrary& p : bench.peers()) versions[std::string(p.name())] = p.version();
    print_json({{"results", list}, {"peers", versions}});
  } else {
    print_table(rows, bench, thread_count(a.common));
  }
  return kDone;
}

}  // namespace

void add_bench(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<BenchArguments>();
  CLI::App* sub = app.add_subcommand("bench", "Times the best kernels beside the peers, in turns");
  add_common(*sub, a->common, {});
  a->sizes.add_to(*sub);
  sub->add_option("--rounds", a->rounds, "Turns of each side")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  sub->add_option("--seed", a->seed, "Seed of the operands' values")->capture_default_str();
  sub->footer("Example:\n  tune-cli bench operators.json --db kernels.db --threads 1");
  runners["bench"] = [a] { return run_bench(*a); };
}

}  // namespace tilewright::cli
