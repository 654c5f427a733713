// tune-cli tune: searches, verifies, stores.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/gpu.h"
#include "cli/kernel_worker.h"
#include "cli/line/command_line.h"
#include "cli/line/duration.h"
#include "cli/line/interrupt.h"
#include "cli/lookup.h"
#include "cli/output/dispatch.h"
#include "cli/output/progress.h"
#include "cli/output/table.h"
#include "cli/tune/fleet_tuning.h"
#include "cli/tune/own_config.h"
#include "cli/tune/proposer.h"
#include "tilewright/version.h"
#include "tuner/backend.h"
#include "tuner/measure/roofline.h"
#include "tuner/search/offline.h"
#include "tuner/search/task_scheduler.h"
#include "tuner/search/tuner.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TuneArguments {
  CommonOptions common;
  int trials = -1;  // not given: 64, or as many as the time allows
  std::string time;
  uint64_t seed = 0;
  bool resume = false, dry_run = false, offline = false, cold = false;
  bool no_warm_start = false, no_pretrained = false;
  int parent = 0;  // the process without which there is nobody to tune for
  std::string search = "evolutionary";
  int batch = TuneOptions().batch;
  double least_gain = 0;             // percent
  std::vector<std::string> configs;  // files
  std::string proposer;              // a shell command
  std::vector<std::string> workers;  // places of a fleet
  DispatchOptions dispatch;
};

TuneOptions options_of(const TuneArguments& a, const Target& target, int threads) {
  TuneOptions o;
  // Candidates that are only looked at cost little.
  const Backend& backend = Backend::of(target);
  // A CPU's model ranks hundreds for the first batch already.
  const int trials = !a.offline ? 64 : backend.only_predicts() ? 400 : o.first_batch;
  o.trials = a.trials >= 0 ? a.trials : a.time.empty() ? trials : TuneOptions::kNoLimit;
  // A single trial goes to the best candidate: the default would tell nothing of the search.
  o.measures_default = o.trials > 1;
  o.seconds = a.time.empty() ? 0 : parse_time_limit(a.time);
  o.seed = a.seed;
  o.threads = target.has_threads ? threads : 1;
  o.batch = a.batch;
  o.least_gain = a.least_gain / 100;
  auto kind = parse_search_kind(a.search);
  if (!kind) {
    throw UsageError(fmt::format("--search: expected {}, got '{}'", search_kind_names(), a.search));
  }
  o.search.kind = *kind;
  if (a.offline && !a.proposer.empty()) {
    throw UsageError(
        "--proposer: expected neither --offline nor --trials 0, which measure nothing that a "
        "proposer could learn from");
  }
  if (!a.workers.empty() && a.offline) {
    throw UsageError("--workers: expected no --offline, which measures nothing");
  }
  if (!a.workers.empty() && !a.proposer.empty()) {
    throw UsageError("--workers: expected no --proposer, which one search leads");
  }
  o.resume = a.resume;
  o.first_batch = std::max(o.first_batch, a.batch);
  o.warm_start = !a.no_warm_start;
  o.pretrained = !a.no_pretrained;
  o.dispatch = a.dispatch;
  o.measure = backend.measure_options();
  o.measure.threads = o.threads;
  o.measure.seed = a.seed;
  o.measure.cold = a.cold;
  if (a.offline) o.measure = offline_options(o.measure);
  o.tool_version = TILEWRIGHT_VERSION;
  Json run = {{"specs", a.common.specs}, {"trials", o.trials}, {"threads", o.threads}};
  if (!a.proposer.empty()) run["proposer"] = a.proposer;
  if (!a.workers.empty()) run["workers"] = a.workers;
  if (!a.offline && a.workers.empty() && runs_on_gpu_here(target)) {
    o.driver_version = gpu_here().facts->driver();
    run["device"] = json_of(*gpu_here().facts);
  }
  o.run_args = run.dump();
  return o;
}

// How often a model uses each workload, where one of the specs says so; the others are used once.
std::vector<double> uses_of(const std::vector<Spec>& specs) {
  std::vector<double> uses;
  bool counted = false;
  for (const Spec& spec : specs) {
    const bool has = spec.has("count");
    uses.push_back(has ? static_cast<double>(spec.get<int64_t>("count")) : 1);
    counted = counted || has;
  }
  return counted ? uses : std::vector<double>();
}

// Nothing was measured: what the model expects goes by another name.
Json predicted(double seconds, Json best) {
  best["seconds"] = best["gflops"] = best["roofline_fraction"] = nullptr;
  best["predicted_seconds"] = seconds;
  return best;
}

// The share of the roofline that a winner reaches where it was measured.
RooflineShare share_of(const TuneResult& r, const GroupResults& m) {
  if (m.workers == 0) {
    return roofline_share(*r.workload, as_measured(m.target), m.threads, r.best_seconds);
  }
  const double share = m.roofs.at(r.workload->hash()) / r.best_seconds;
  return {share, share > 1 ? kLeavesOut : ""};
}

Json result_json(const TuneResult& r, const GroupResults& machines) {
  const Target& target = machines.target;
  Json invalid = Json::object();
  for (TrialVerdict v : {TrialVerdict::CompileError, TrialVerdict::RuntimeError,
                         TrialVerdict::Timeout, TrialVerdict::Wrong, TrialVerdict::Illegal}) {
    auto it = r.invalid.find(v);
    invalid[std::string(database::verdict_name(v))] = it == r.invalid.end() ? 0 : it->second;
  }
  Json spent = Json::object();
  for (const auto& [name, part] : kSpentParts) spent[name] = r.spent.*part;
  Json best = nullptr;
  if (r.best_seconds > 0) {
    const RooflineShare share = share_of(r, machines);
    best = {{"seconds", r.best_seconds},
            {"gflops", r.workload->flops / r.best_seconds * 1e-9},
            {"roofline_fraction", share.fraction},
            {"config", Json::parse(r.config)},
            {"sketch", r.sketch}};
    if (!share.cause.empty()) best["roofline_cause"] = share.cause;
    if (r.predicted) best = predicted(r.best_seconds, std::move(best));
  }
  return {{"spec", spec_to_inline(parse_spec(r.workload->canonical))},
          {"name", r.workload->label},
          {"workload", r.workload->hash()},
          {"target", target.name},
          {"machine", machines.workers == 0 ? Json(nullptr)
                                            : Json{{"chip", machines.machine},
                                                   {"workers", machines.workers},
                                                   {"threads", machines.threads}}},
          {"trials", r.trials},
          {"valid", r.valid},
          {"invalid", invalid},
          {"best", best},
          {"default_seconds", r.default_seconds > 0 ? Json(r.default_seconds) : Json(nullptr)},
          {"behind", r.behind < 0 ? Json(nullptr) : Json(r.behind)},
          {"predicted", r.predicted},
          {"dispatch", cli::json_of(r.dispatch)},
          {"disturbed", !r.disturbed.empty()},
          {"disturbance", r.disturbed.empty() ? Json(nullptr) : Json(r.disturbed)},
          {"proposals", {{"proposed", r.proposals.proposed}, {"refused", r.proposals.refused}}},
          {"elapsed_s", r.elapsed},
          {"spent_s", spent},
          {"settled", r.settled},
          {"interrupted", r.interrupted}};
}

void add_rows(Table& table, const GroupResults& machines) {
  for (const TuneResult& r : machines.results) {
    const double best = r.best_seconds;
    const bool compared = best > 0 && r.default_seconds > 0 && !r.predicted;
    std::string gain = compared ? fmt::format("{:.1f}x", r.default_seconds / best) : "-";
    if (!r.disturbed.empty()) gain = "disturbed";
    table.row(
        {spec_to_inline(parse_spec(r.workload->canonical)), std::to_string(r.trials),
         std::to_string(r.valid), readable_seconds(best),
         r.predicted || best == 0 ? "-" : fmt::format("{:.1f}", r.workload->flops / best * 1e-9),
         gain});
    if (r.predicted) table.note("predicted, not measured");
    if (r.settled) {
      table.note(fmt::format("ended early: {} trials made it faster by less than --least-gain",
                             TaskScheduler::kWatchedTrials));
    }
    if (!r.disturbed.empty()) table.note("disturbed: " + r.disturbed);
    if (r.proposals.refused > 0) {
      table.note(fmt::format("{} of {} proposals were refused, the first one since: {}",
                             r.proposals.refused, r.proposals.proposed, r.proposals.first_reason));
    }
    for (const std::string& line : dispatch_lines(r.dispatch)) table.note(line);
    if (machines.workers > 0) {
      table.note(fmt::format("{} workers, {}, {}", machines.workers, machines.machine,
                             database::threads_text(machines.threads)));
    }
  }
}

void print_table(const FleetResults& results) {
  Table table({"workload", "trials", "valid", "best", "GFLOP/s", "default"});
  for (const GroupResults& m : results.groups) add_rows(table, m);
  if (results.workers > 0) {
    for (const std::string& line : fleet_lines(results)) table.note(line);
  }
  fmt::print("{}", table.text(terminal_width(STDOUT_FILENO)));
}

// Prints the command that goes on after an interrupted run.
void say_how_to_resume(const TuneArguments& a) {
  const auto& specs = a.common.specs;
  const bool from_stdin = std::find(specs.begin(), specs.end(), "-") != specs.end();
  note(a.common,
       fmt::format("interrupted; all finished trials are kept. To go on{}:\n  {}",
                   from_stdin ? ", with the same specs on standard input" : "", resume_command()));
}

void note_not_resumed(const CommonOptions& options, const TuneResult& r) {
  for (const auto& [reason, count] : r.not_resumed) {
    note(options,
         fmt::format("{}: {} earlier trials are not resumed: {}; their kernels stay in use",
                     spec_to_inline(parse_spec(r.workload->canonical)), count, reason));
  }
}

// A resumed search with as many stored trials as it may measure.
void note_enough_trials(const TuneArguments& a, const TuneOptions& options, const TuneResult& r) {
  if (!a.resume || !r.order.empty() || r.trials < options.trials) return;
  note(a.common,
       fmt::format("{}: {} trials are stored, and nothing was measured; --trials counts them, "
                   "expected more than {}",
                   spec_to_inline(parse_spec(r.workload->canonical)), r.trials, r.trials));
}

// Configs of one's own, for each workload those that are meant for it.
std::vector<std::vector<Draft>> wanted_configs(const std::vector<std::string>& files,
                                               const std::vector<Workload>& workloads,
                                               const Target& target, int threads) {
  if (files.empty()) return {};
  std::vector<std::vector<Draft>> wanted(workloads.size());
  for (const std::string& file : files) {
    bool used = false;
    for (const OwnConfig& own : read_own_configs(file)) {
      for (size_t i = 0; i < workloads.size(); ++i) {
        if (!own.is_for(workloads[i])) continue;
        require_fitting(own, file, {workloads[i], target, threads});
        wanted[i].push_back({own.sketch, Trial::replay(own.config)});
        used = true;
      }
    }
    if (!used) throw UsageError(file + ": the config is of another workload than those given");
  }
  return wanted;
}

// Where the time went.
void print_spent(const FleetResults& results) {
  SecondsSpent spent;
  double elapsed = 0;
  for (const GroupResults& m : results.groups) {
    for (const TuneResult& r : m.results) {
      spent += r.spent;
      elapsed += r.elapsed;
    }
  }
  if (spent.checks + spent.timing == 0) return;
  fmt::print(
      "{:.1f} s in all: search {:.1f}, compilers {:.1f}, reference values {:.1f}, checks {:.1f}, "
      "timing {:.1f}\n",
      elapsed, spent.proposing, spent.building, spent.reference, spent.checks, spent.timing);
}

int exit_code(const FleetResults& results, bool interrupted, bool timed) {
  if (interrupted) return kInterrupted;
  for (const GroupResults& m : results.groups) {
    for (const TuneResult& r : m.results) {
      if (r.best_seconds == 0) return timed ? kBudgetEnded : kNoValidCandidate;
    }
  }
  return kDone;
}

int show_plan(const TuneArguments& a, const std::vector<Workload>& workloads,
              const Target& target) {
  Json list = Json::array();
  for (const Workload& w : workloads) {
    std::string spec = spec_to_inline(parse_spec(w.canonical));
    list.push_back({{"spec", spec},
                    {"name", w.label},
                    {"workload", w.hash()},
                    {"target", target.name},
                    {"expr", to_string(w)}});
    if (!a.common.json) fmt::print("{}\n{}", spec, to_string(w));
  }
  if (a.common.json) print_json({{"results", list}});
  return kDone;
}

// The least time of each workload on this machine, for the progress line.
std::map<std::string, double> roofs_here(const TuneArguments& a, const Target& target,
                                         const std::vector<Workload>& workloads, int threads) {
  std::map<std::string, double> roofs;
  if (a.common.quiet || !a.workers.empty()) return roofs;
  for (const Workload& w : workloads) {
    roofs[w.hash()] = roofline_of(w, a.offline ? target : as_measured(target), threads).seconds;
  }
  return roofs;
}

// On this machine, or predicted for it.
FleetResults tune_here(const TuneArguments& a, const Target& target, const TuneOptions& options,
                       const std::vector<Workload>& workloads, database::Store& store,
                       const std::atomic<bool>& interrupted, const ProgressFn& show) {
  const database::TargetIdentity identity =
      a.offline ? described_identity(target) : target_identity(target);
  LocalMeasurer measurer(worker_command(), target, options.measure);
  if (!a.offline) note_confinement(a.common, target);
  const auto results =
      a.offline
          ? rank_offline(workloads, target, identity, store, measurer, options, interrupted, show)
          : tune(workloads, target, identity, store, measurer, options, interrupted, show);
  FleetResults found;
  found.groups.push_back({identity.chip, 0, target, options.threads, {}, results});
  return found;
}

void print_results(const TuneArguments& a, const TuneOptions& options,
                   const FleetResults& results) {
  for (const GroupResults& m : results.groups) {
    for (const TuneResult& r : m.results) {
      note_not_resumed(a.common, r);
      note_enough_trials(a, options, r);
    }
  }
  if (!a.common.json) {
    print_table(results);
    print_spent(results);
    return;
  }
  Json list = Json::array();
  for (const GroupResults& m : results.groups) {
    for (const TuneResult& r : m.results) list.push_back(result_json(r, m));
  }
  print_json(
      {{"results", list}, {"fleet", results.workers == 0 ? Json(nullptr) : json_of(results)}});
}

double bytes_for_buffer(const Buffer& buffer) {
  double elements = 1;  // as a real number: the product may not fit in 64 bits
  for (int64_t extent : const_shape(buffer)) elements *= static_cast<double>(extent);
  return elements * bits_of(buffer->elem) / 8;
}

// Refuses operands that a worker could not hold: no candidate could be measured.
void require_memory(const Workload& w, int64_t limit) {
  const Workload sized = at_sizes(w, largest_sizes(w));
  double bytes = bytes_for_buffer(sized.output());
  for (const Param& p : sized.inputs) bytes += bytes_for_buffer(p.buffer);
  if (bytes <= static_cast<double>(limit)) return;
  throw UsageError(
      fmt::format("{}: its operands have {:.0f} bytes; a process that measures may take {}",
                  spec_to_inline(parse_spec(w.canonical)), bytes, limit));
}

int run_tune(TuneArguments a) {
  if (a.trials == 0) {
    a.offline = true;
    a.trials = -1;
  }
  std::vector<Spec> specs;
  for (const std::string& argument : a.common.specs) {
    for (Spec& spec : parse_specs(argument)) specs.push_back(std::move(spec));
  }
  std::vector<Workload> workloads;
  for (const Spec& spec : specs) workloads.push_back(make_workload(spec));
  const std::atomic<bool>& interrupted = catch_interrupts();
  const double seconds = a.time.empty() ? 0 : parse_time_limit(a.time);
  ProposerProcess proposer(a.proposer, seconds, interrupted);
  const auto options_for = [&](const Target& target, int threads) {
    TuneOptions options = options_of(a, target, threads);
    options.uses = uses_of(specs);
    options.wanted = wanted_configs(a.configs, workloads, target, options.threads);
    if (!a.proposer.empty()) {
      options.proposer = [&](const ProposalRequest& request) { return proposer.ask(request); };
    }
    return options;
  };
  const Target target = Target::parse(a.common.target);
  const TuneOptions options = options_for(target, thread_count(a.common));
  if (a.dry_run) return show_plan(a, workloads, target);
  if (a.parent > 0) end_with_parent(a.parent);
  if (!target.is_cuda() && !a.offline) {
    for (const Workload& w : workloads) require_memory(w, options.measure.memory_limit);
  }
  database::Store store = database::Store::open(a.common.db, database::Mode::Create);
  if (!store.distrust().empty()) {
    note(a.common,
         fmt::format("kernels that are stored here will not be run: {}", store.distrust()));
  }
  // Before anything is measured: the probe wants the machine.
  ProgressLine line(a.common.quiet, roofs_here(a, target, workloads, options.threads));
  const auto show = [&](const TuneProgress& p) { line.show(p); };
  const FleetResults results =
      a.workers.empty()
          ? tune_here(a, target, options, workloads, store, interrupted, show)
          : tune_on_fleet({a.workers, a.common, options_for, show}, workloads, interrupted);
  line.finish();
  print_results(a, options, results);
  if (interrupted && a.parent == 0) say_how_to_resume(a);  // else a program has asked
  return exit_code(results, interrupted, seconds > 0);
}

}  // namespace

void add_tune(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<TuneArguments>();
  CLI::App* sub =
      app.add_subcommand("tune", "Searches kernels, checks each one and stores the fastest");
  add_common(*sub, a->common, {.cuda = true});
  sub->add_option("--trials", a->trials,
                  "Candidates to measure per workload (64; with --time as many as it allows; with "
                  "--offline 16, for a GPU 400). 0 measures none, as --offline does")
      ->check(CLI::Range(0, 10000000));
  sub->add_option("--time", a->time, "Time limit for all workloads together: 90s, 10m, 1h30m")
      ->type_name("TIME");
  sub->add_option("--seed", a->seed, "Seed of the search and of the operands")
      ->capture_default_str();
  sub->add_option("--batch", a->batch,
                  "Candidates per batch, between two updates of the cost model")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  sub->add_option("--least-gain", a->least_gain,
                  fmt::format("Percent by which {} trials have to make a workload faster; else its "
                              "search ends. 0: it never ends early",
                              TaskScheduler::kWatchedTrials))
      ->check(CLI::Range(0.0, 100.0))
      ->type_name("PERCENT")
      ->capture_default_str();
  sub->add_option("--search", a->search, "Search policy: " + search_kind_names())
      ->capture_default_str();
  sub->add_option("--config", a->configs, "Config to measure first, as 'show --config' prints it")
      ->type_name("FILE")
      ->take_all()
      ->allow_extra_args(false);
  sub->add_option("--proposer", a->proposer,
                  "Shell command that proposes the configs: it reads and writes a line of JSON for "
                  "each batch")
      ->type_name("CMD")
      ->check([](const std::string& command) {
        return command.empty() ? "expected a command, such as 'python3 proposer.py'" : "";
      });
  sub->add_option(
         "--workers", a->workers,
         "Where candidates are measured: local:COUNT, ssh:HOST,HOST, srun:OPTIONS, ray:COUNT "
         "or command:COMMAND; once for each")
      ->type_name("PLACES")
      ->take_all()
      ->allow_extra_args(false);
  sub->add_flag("--resume", a->resume, "Resume the search from the records in the database");
  sub->add_flag("--no-warm-start", a->no_warm_start,
                "Do not seed the search or the cost model from the database");
  sub->add_flag("--no-pretrained", a->no_pretrained, "Do not start from the shipped cost model");
  sub->add_flag("--cold", a->cold, "Flush the caches before each timed run");
  sub->add_option("--kernels", a->dispatch.kernels, "Maximum number of kernels in a dispatch table")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  sub->add_flag("--one-order", a->dispatch.one_order,
                "For dynamic dimensions: only kernels with the same summation order, so that a "
                "row's bits do not depend on the number of rows");
  sub->add_option("--parent", a->parent,
                  "Stop as on Ctrl-C when the process with this id has ended")
      ->type_name("PID")
      ->check(CLI::PositiveNumber);
  sub->add_flag("--dry-run", a->dry_run, "Print what would be tuned, do nothing");
  sub->add_flag(
      "--offline", a->offline,
      "Rank candidates by a cost model and measure nothing: a CPU's stored or shipped model, or a "
      "GPU's data-sheet model, without a GPU. Records are marked as predicted");
  sub->footer(
      "Examples:\n  tune-cli tune matmul:m=512,n=3072,k=768 --trials 64\n"
      "  tune-cli tune operators.json --time 10m --db kernels.db --resume\n"
      "  tune-cli tune matmul:m=1..4096,n=4096,k=4096 --kernels 4 --one-order\n"
      "  tune-cli tune operators.json --trials 0 --db kernels.db\n"
      "  tune-cli tune operators.json --workers ssh:build1,build2 --db kernels.db\n"
      "  tune-cli tune operators.json --offline --trials 1000 --db kernels.db\n"
      "  tune-cli tune matmul:m=4096,n=4096,k=4096,dtype=f16 --target cuda:sm_80 --offline");
  runners["tune"] = [a] { return run_tune(*a); };
}

}  // namespace tilewright::cli
