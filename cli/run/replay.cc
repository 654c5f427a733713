// tune-cli replay: the best kernels out of the database, checked and timed, with no compiler.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "cli/command.h"
#include "cli/kernel_worker.h"
#include "cli/lookup.h"
#include "cli/output/dispatch.h"
#include "cli/output/progress.h"
#include "cli/output/table.h"
#include "cli/sizes.h"
#include "runtime/worker/jobs.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ReplayArguments {
  CommonOptions common;
  Sizes sizes;
  bool require = false;
  std::optional<uint64_t> seed;  // of the operands; else one that no run before had
};

struct Replayed {
  const Workload* workload;
  std::map<std::string, int64_t> sizes;  // of its dynamic dimensions, at which it ran
  std::string miss;                      // empty on a hit
  MeasureResult result;
  bool predicted = false;            // ranked by a model, and measured here for the first time
  database::BestResult chosen = {};  // without its artifact
  std::string outcome = {};          // of a hit
  bool hit() const { return miss.empty(); }
  // The tuned kernel does not serve: --require refuses what stands in for it.
  bool stands_in() const {
    return outcome == "default" && chosen.passed_over.starts_with(database::kTunedLacking);
  }
};

Replayed replay_one(const Workload& w, const Sizes& sizes, const database::Store& store,
                    const Lookup& lookup, uint64_t seed, KernelWorker& worker) {
  Replayed r{&w, sizes.of(w), {}, {}};
  database::BestResult best = lookup.best_or_predicted(store, w, r.sizes);
  if (!best.record || !best.artifact) {
    r.miss = best.miss;
    return r;
  }
  r.predicted = best.record->offline;
  r.chosen.record = best.record;
  r.chosen.range = best.range;
  r.chosen.near = best.near;
  r.chosen.passed_over = best.passed_over;
  r.outcome = lookup.outcome_of(best);
  MeasureJob job = measure_job(w, *best.artifact, lookup);
  job.threads = lookup.threads_of(best);
  job.dims = r.sizes;
  job.seed = seed;
  r.result = worker.measure(job);
  if (r.result.verdict != Verdict::Ok) r.result.message += fmt::format(" (--seed {})", seed);
  return r;
}

Json replayed_json(const Replayed& r) {
  Json j = {{"spec", spec_to_inline(parse_spec(r.workload->canonical))},
            {"name", r.workload->label},
            {"hit", r.hit()},
            {"checked", r.hit() && r.result.verdict == Verdict::Ok},
            {"max_rel_error", r.hit() ? Json(r.result.max_rel_error) : Json(nullptr)},
            {"seconds", r.hit() ? Json(r.result.timing.median) : Json(nullptr)},
            {"wall_seconds", r.hit() ? Json(r.result.timing.wall_median) : Json(nullptr)},
            {"disturbed", !r.result.timing.disturbed.empty()},
            {"compiled", false},
            {"predicted", r.predicted}};
  if (!r.sizes.empty()) j["dims"] = r.sizes;
  add_range(j, r.chosen.range);
  if (r.hit()) j["outcome"] = r.outcome;
  if (!r.chosen.passed_over.empty()) j["passed_over"] = r.chosen.passed_over;
  if (!r.chosen.near.empty()) j["near"] = r.chosen.near;
  if (!r.result.timing.disturbed.empty()) j["disturbance"] = r.result.timing.disturbed;
  if (!r.hit()) j["miss"] = r.miss;
  if (r.hit() && r.result.verdict != Verdict::Ok) j["fault"] = r.result.message;
  return j;
}

// On the line of the name where there is room, else below it.
void print_row(const std::string& name, const std::string& text) {
  constexpr size_t kName = 34;
  if (name.size() <= kName && kName + 2 + text.size() <= terminal_width(STDOUT_FILENO)) {
    fmt::print("{:<{}}  {}\n", name, kName, text);
  } else {
    const size_t width = terminal_width(STDOUT_FILENO);
    fmt::print("{}\n  {}\n", wrapped(name, width, 2), wrapped(text, width - 2, 2));
  }
}

void print_row(const Replayed& r) {
  Workload sized = at_sizes(*r.workload, r.sizes);
  std::string name = spec_to_inline(parse_spec(sized.canonical));
  if (!r.hit()) return print_row(name, "miss: " + r.miss);
  if (r.result.verdict != Verdict::Ok) {
    return print_row(name, fmt::format("{}: {}", name_of(r.result.verdict), r.result.message));
  }
  print_row(name, fmt::format("{:>10} {:>8.1f} GFLOP/s  checked, error {:.1e}",
                              readable_seconds(r.result.timing.median),
                              sized.flops / r.result.timing.median * 1e-9, r.result.max_rel_error));
  if (r.predicted) fmt::print("  chosen by the model, never tuned\n");
  if (!r.chosen.near.empty()) fmt::print("  near: {}\n", r.chosen.near);
  if (r.outcome == "default") {
    print_wrapped(fmt::format("  default: {}the untuned default",
                              r.chosen.passed_over.empty() ? "" : r.chosen.passed_over + "; "));
  }
  if (r.chosen.range) {
    fmt::print("  kernel {} of range {}\n", r.chosen.record->id.substr(0, 8),
               range_text(r.chosen.range));
  }
  if (!r.result.timing.disturbed.empty()) {
    fmt::print("  disturbed: {}; by the wall's clock {}\n", r.result.timing.disturbed,
               readable_seconds(r.result.timing.wall_median));
  }
}

int run_replay(const ReplayArguments& a) {
  std::vector<Workload> workloads = read_workloads(a.common);
  a.sizes.require_known(workloads);
  database::Store store = open_store(a.common);
  Lookup lookup(a.common);
  note_confinement(a.common, lookup.target);
  KernelWorker worker(lookup.target);
  const uint64_t seed = a.seed ? *a.seed : std::random_device()();
  Json list = Json::array();
  bool missed = false, wrong = false;
  for (const Workload& w : workloads) {
    Replayed r = replay_one(w, a.sizes, store, lookup, seed, worker);
    missed |= !r.hit() || r.stands_in();
    wrong |= r.hit() && r.result.verdict != Verdict::Ok;
    if (a.common.json) {
      list.push_back(replayed_json(r));
    } else {
      print_row(r);
      if (!r.hit() || r.stands_in()) note_tuning(a.common, w);
    }
  }
  if (a.common.json) print_json({{"results", list}});
  if (wrong) return kNoValidCandidate;
  return missed && a.require ? kRequiredMissed : kDone;
}

}  // namespace

void add_replay(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<ReplayArguments>();
  CLI::App* sub = app.add_subcommand(
      "replay",
      "Loads the best kernels from the database, checks and times them; compiles nothing");
  add_common(*sub, a->common, {.cuda = true, .trust = true});
  a->sizes.add_to(*sub);
  sub->add_option("--seed", a->seed,
                  "Seed of the operands' values; default: a different one each time");
  sub->add_flag("--require", a->require,
                "Exit with code 7 if the database lacks a workload's kernel, or the tuned one does "
                "not run here");
  sub->footer(
      "Examples:\n  tune-cli replay matmul:m=512,n=3072,k=768 --db kernels.db --require\n"
      "  tune-cli replay matmul:m=1..64,n=256,k=256 --dim m=16");
  runners["replay"] = [a] { return run_replay(*a); };
}

}  // namespace tilewright::cli
