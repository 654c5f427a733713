// tune-cli explain: why this kernel.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cli/command.h"
#include "cli/gpu.h"
#include "cli/lookup.h"
#include "cli/output/dispatch.h"
#include "cli/output/progress.h"
#include "cli/output/table.h"
#include "cli/run/checked_sizes.h"
#include "cli/run/model_file.h"
#include "tuner/backend.h"
#include "tuner/measure/roofline.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

// The answers in which two configs differ: "C.vi.rows 7 -> 14".
std::vector<std::string> differences(const std::string& from, const std::string& to) {
  Json a = Json::parse(from), b = Json::parse(to);
  std::vector<std::string> list;
  for (const auto& [key, value] : a.items()) {
    if (!b.contains(key)) {
      list.push_back(fmt::format("{} {} -> not asked", key, value.dump()));
    } else if (b[key] != value) {
      list.push_back(fmt::format("{} {} -> {}", key, value.dump(), b[key].dump()));
    }
  }
  for (const auto& [key, value] : b.items()) {
    if (!a.contains(key)) list.push_back(fmt::format("{} not asked -> {}", key, value.dump()));
  }
  return list;
}

struct Facts {
  database::Record best;
  std::optional<database::Record> untuned, runner_up;
};

Facts facts_of(const database::Store& store, const Workload& w, const Lookup& lookup,
               const database::Record& best) {
  Facts f{best, {}, {}};
  database::RecordFilter filter;
  filter.workload_hash = w.hash();
  filter.target_hash = lookup.identity.hash;
  filter.verdict = database::Verdict::Valid;
  for (const database::Record& r : store.records(filter).records) {
    if (r.threads != best.threads || r.offline) continue;
    if (r.is_default) f.untuned = r;
    if (r.config == best.config || r.is_default) continue;
    // Times of the race compare with each other; a trial's first measurement is a time of its own.
    const auto rank = [](const database::Record& rival) {
      return std::pair(!rival.confirmed, rival.median_seconds);
    };
    if (!f.runner_up || rank(r) < rank(*f.runner_up)) f.runner_up = r;
  }
  return f;
}

// The facts of compiler and emulator about a kernel for a GPU.
void add_facts(Json& j, const database::BestResult& best) {
  if (!best.artifact) return;
  Json description = Json::parse(best.artifact->description);
  j["facts"] = description.value("facts", Json());
  if (description.contains("emulated")) j["emulated"] = description["emulated"];
}

// How far the kernel, and those of its table, are proved and where they were checked.
void add_sizes(Json& j, const Workload& w, const database::BestResult& best,
               const database::DispatchResult& dispatch) {
  if (w.dims.empty()) return;
  if (best.artifact) j["sizes"] = checked_sizes(w, *best.artifact, best.record->offline);
  if (!dispatch.table) return;
  for (Json& range : j["dispatch"]["ranges"]) {
    const auto& kernel = dispatch.kernels.at(range["record"].get<std::string>());
    if (kernel.artifact) {
      range["sizes"] = checked_sizes(w, *kernel.artifact, kernel.record.offline);
    }
  }
}

// The kernel that a model ranked first, and why, if nothing was measured.
void add_prediction(Json& j, const Workload& w, const Lookup& lookup,
                    const database::BestResult& best) {
  Roofline roof = roofline_of(w, lookup.target, lookup.threads);
  j["predicted"] = true;
  j["seconds"] = j["gflops"] = nullptr;
  j["predicted_seconds"] = best.record->median_seconds;
  j["roofline"] = {{"seconds", roof.seconds},
                   {"bound_by", roof.bound_by},
                   {"flops", w.flops},
                   {"bytes", roof.bytes}};
  j["sketch"] = best.record->sketch;
  j["config"] = Json::parse(best.record->config);
  j["model"] = json_of(stored_estimate(w, lookup, *best.record, best.artifact));
  add_facts(j, best);
}

Json explain(const Workload& w, const database::Store& store, const Lookup& lookup,
             const database::DispatchResult& dispatch) {
  database::BestResult best = Backend::of(lookup.target).only_predicts()
                                  ? lookup.best_or_predicted(store, w)
                                  : lookup.best(store, w);
  Json j = {{"spec", spec_to_inline(parse_spec(w.canonical))}, {"hit", best.record.has_value()}};
  if (!best.record) {
    j["miss"] = best.miss;
    return j;
  }
  if (best.record->offline) {
    add_prediction(j, w, lookup, best);
    if (dispatch.table) j["dispatch"] = json_of(dispatch);
    add_sizes(j, w, best, dispatch);
    return j;
  }
  Facts f = facts_of(store, w, lookup, *best.record);
  double seconds = f.best.median_seconds;
  const Target target = as_measured(lookup.target);
  // Before the roofline: it may measure the machine's peaks again.
  const RooflineShare share = roofline_share(w, target, lookup.threads, seconds);
  Roofline roof = roofline_of(w, target, lookup.threads);
  j["seconds"] = seconds;
  j["gflops"] = w.flops / seconds * 1e-9;
  j["roofline"] = {{"seconds", roof.seconds},   {"fraction", share.fraction},
                   {"bound_by", roof.bound_by}, {"flops", w.flops},
                   {"bytes", roof.bytes},       {"bytes_per_second", roof.bytes / seconds}};
  if (!share.cause.empty()) j["roofline"]["cause"] = share.cause;
  if (Backend::of(lookup.target).only_predicts()) {
    j["model"] = json_of(stored_estimate(w, lookup, *best.record, best.artifact));
    j["driver"] = f.best.driver_version;
    add_facts(j, best);
  }
  j["sketch"] = f.best.sketch;
  j["config"] = Json::parse(f.best.config);
  if (!f.best.reason.empty()) j["note"] = f.best.reason;
  if (!best.passed_over.empty()) j["passed_over"] = best.passed_over;
  if (f.untuned) {
    j["default"] = {{"seconds", f.untuned->median_seconds},
                    {"ratio", f.untuned->median_seconds / seconds}};
  }
  if (f.runner_up) {
    j["runner_up"] = {{"seconds", f.runner_up->median_seconds},
                      {"ratio", f.runner_up->median_seconds / seconds},
                      {"confirmed", f.runner_up->confirmed},
                      {"differs", differences(f.best.config, f.runner_up->config)}};
  }
  if (dispatch.table) j["dispatch"] = json_of(dispatch);
  add_sizes(j, w, best, dispatch);
  database::FailureCounts failures = store.failures(w.hash(), lookup.identity.hash);
  Json causes = Json::object();
  for (auto [verdict, count] : failures.by_verdict) {
    causes[std::string(database::verdict_name(verdict))] = count;
  }
  j["failures"] = causes;
  j["reasons"] = failures.by_reason;
  return j;
}

template <class... T>
void say(fmt::format_string<T...> text, T&&... values) {
  print_wrapped(fmt::format(text, std::forward<T>(values)...));
}

void print_facts(const Json& j) {
  for (const Json& kernel : j.value("facts", Json::array())) {
    say("  machine code: {} registers, instructions {}", kernel["registers"].get<int>(),
        kernel["instructions"].dump());
  }
  if (!j.contains("emulated")) return;
  const Json& counters = j["emulated"]["counters"];
  auto count = [&](const char* name) { return counters.value(name, int64_t{0}); };
  say("  in the emulator, on {}:", j["emulated"]["instance"].get<std::string>());
  if (count("thread_orders") > 0) {
    std::string run = fmt::format("{} orders of threads", count("thread_orders"));
    if (count("ring_stages") > 0) {
      run += fmt::format(", {} iterations of a ring of {} stages (remainder {})",
                         count("ring_iterations"), count("ring_stages"), count("ring_remainder"));
    }
    if (count("tiles_per_block") > 0) {
      run += fmt::format(", {} tiles per block", count("tiles_per_block"));
    }
    if (count("curve_rows") > 0) {
      run += fmt::format(", a curve of {} x {} tiles", count("curve_rows"), count("curve_columns"));
    }
    say("    checked in {}", run);
  }
  say("    shared memory: {} passes, {} of them bank conflicts", count("shared_passes"),
      count("bank_conflicts"));
  for (const char* way : {"load", "store"}) {
    int64_t sectors = count((std::string(way) + "_sectors").c_str());
    int64_t bytes = count((std::string(way) + "_bytes").c_str());
    if (sectors == 0) continue;
    say("    {}s: {} sectors of 32 bytes; threads use {:.1f} bytes per sector", way, sectors,
        static_cast<double>(bytes) / static_cast<double>(sectors));
  }
}

void print_prediction(const Json& j) {
  say("  predicted {}, not measured; the data sheet's roofline, set by {}, is {}",
      readable_seconds(j["predicted_seconds"]), j["roofline"]["bound_by"].get<std::string>(),
      readable_seconds(j["roofline"]["seconds"]));
  say("  {} {}", j["sketch"].get<std::string>(), j["config"].dump());
  print_estimate(j["model"]);
  print_facts(j);
}

void print(const Json& j) {
  fmt::print("{}\n", j["spec"].get<std::string>());
  if (!j["hit"].get<bool>()) {
    say("  miss: {}", j["miss"].get<std::string>());
    return;
  }
  if (j.contains("predicted")) return print_prediction(j);
  const Json& roof = j["roofline"];
  say("  {} ({:.1f} GFLOP/s), {:.0f}% of this machine's roofline, which is set by {}",
      readable_seconds(j["seconds"]), j["gflops"].get<double>(),
      100 * roof["fraction"].get<double>(), roof["bound_by"].get<std::string>());
  if (roof.contains("cause")) {
    say("  above the roofline: {}", roof["cause"].get<std::string>());
  }
  say("  moves at least {:.2f} MB, {:.1f} GB/s", roof["bytes"].get<double>() * 1e-6,
      roof["bytes_per_second"].get<double>() * 1e-9);
  say("  {} {}", j["sketch"].get<std::string>(), j["config"].dump());
  if (j.contains("note")) say("  {}", j["note"].get<std::string>());
  if (j.contains("passed_over")) {
    say("  the untuned default serves: {}", j["passed_over"].get<std::string>());
  }
  if (j.contains("default")) {
    say("  untuned default: {}, {:.1f} times as long", readable_seconds(j["default"]["seconds"]),
        j["default"]["ratio"].get<double>());
  }
  if (j.contains("runner_up")) {
    const Json& rival = j["runner_up"];
    say("  runner-up: {}, {:.3f} times as long{}; it differs in",
        readable_seconds(rival["seconds"]), rival["ratio"].get<double>(),
        rival["confirmed"].get<bool>()
            ? ""
            : " by its first measurement (finalists are measured again, in turns)");
    for (const Json& d : j["runner_up"]["differs"]) say("    {}", d.get<std::string>());
  }
  if (j.contains("model")) {
    print_estimate(j["model"]);
    print_facts(j);
    say("  measured with driver {}", j["driver"].get<std::string>());
  }
  for (const auto& [cause, count] : j["failures"].items()) {
    say("  failed, {}: {}", cause, count.dump());
  }
  for (const auto& [reason, count] : j["reasons"].items()) {
    say("    {} x {}", count.dump(), reason);
  }
}

// The kernel for the largest sizes first, then the others in the table.
void print_sizes(const Workload& w, const Json& j) {
  if (j.contains("sizes")) say("  {}", checked_text(w, j["sizes"]));
  std::set<std::string> printed;
  for (const Json& range : j.value("dispatch", Json::object()).value("ranges", Json::array())) {
    const auto record = range["record"].get<std::string>();
    if (!range.contains("sizes") || !printed.insert(record).second) continue;
    say("  kernel {}: {}", record.substr(0, 8), checked_text(w, range["sizes"]));
  }
}

int run_explain(const CommonOptions& options) {
  const std::vector<Workload> workloads = read_workloads(options);
  database::Store store = open_store(options);
  const Lookup asked(options);
  Json list = Json::array();
  for (const Workload& w : workloads) {
    const Lookup lookup = asked.as_tuned(store, w);
    if (lookup.threads != asked.threads) {
      note(options, fmt::format("{}: explains the kernel for {}, asked for {}",
                                spec_to_inline(parse_spec(w.canonical)),
                                database::threads_text(lookup.threads), asked.threads));
    }
    const database::DispatchResult dispatch = lookup.dispatch(store, w);
    list.push_back(explain(w, store, lookup, dispatch));
    if (options.json) continue;
    print(list.back());
    if (!list.back()["hit"].get<bool>()) note_tuning(options, w);
    for (const std::string& line : dispatch_lines(dispatch)) say("  {}", line);
    print_sizes(w, list.back());
  }
  if (options.json) print_json({{"results", list}});
  return kDone;
}

}  // namespace

void add_explain(CLI::App& app, Runners& runners) {
  auto options = std::make_shared<CommonOptions>();
  CLI::App* sub = app.add_subcommand(
      "explain", "Explains the choice of a kernel, or a model file's time by node and cause");
  add_common(*sub, *options, {.runs_kernels = false, .cuda = true, .trust = true});
  sub->footer(
      "Examples:\n  tune-cli explain matmul:m=512,n=768,k=768 --db kernels.db\n"
      "  tune-cli explain model.tw");
  runners["explain"] = [options, sub] {
    if (!names_model(*options)) return run_explain(*options);
    refuse_of_model(*sub, {"--target"});
    return explain_model(*options);
  };
}

}  // namespace tilewright::cli
