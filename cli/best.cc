// tune-cli best: what the database holds as best, one row a workload.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/dispatch.h"
#include "cli/lookup.h"
#include "cli/progress.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BestArguments {
  CommonOptions common;
  bool all = false;  // rows of other machines as well
};

// The workloads that were asked for, or all that were tuned on this machine.
std::vector<Workload> wanted(const CommonOptions& options, const database::Store& store,
                             const Lookup& lookup) {
  if (!options.specs.empty()) return read_workloads(options);
  return stored_workloads(store, lookup);
}

// A row of another machine: the best kernel that it measured on so many threads.
Json foreign_row(const Workload& w, const database::Record& best, bool json) {
  const std::string spec = spec_to_inline(parse_spec(w.canonical));
  const database::TargetIdentity& target = best.target;
  if (!json) {
    fmt::print("{:<46} {:>12} {:>8.1f} GFLOP/s  {} {}\n  on {} ({}), {}\n", spec,
               readable_seconds(best.median_seconds), w.flops / best.median_seconds * 1e-9,
               best.sketch, best.config, target.chip,
               target.features.empty() ? "plain C" : target.features,
               database::threads_text(best.threads));
  }
  return {{"spec", spec},
          {"name", w.label},
          {"workload", w.hash()},
          {"seconds", best.median_seconds},
          {"gflops", w.flops / best.median_seconds * 1e-9},
          {"threads", best.threads},
          {"sketch", best.sketch},
          {"config", Json::parse(best.config, nullptr, false)},
          {"machine", {{"chip", target.chip}, {"features", target.features}}}};
}

// What other machines measured of a workload: their best, one each of target and number of threads.
std::vector<database::Record> foreign_records(const database::Store& store, const Lookup& lookup,
                                              const std::string& workload) {
  const std::string described = described_identity(lookup.target).hash;
  std::map<std::pair<std::string, int>, database::Record> best;
  const database::RecordFilter filter = {
      .workload_hash = workload, .verdict = database::Verdict::Valid, .by_time = true};
  for (database::Record& r : store.records(filter).records) {
    const bool here = r.target.hash == lookup.identity.hash || r.target.hash == described;
    if (!here && !r.offline) best.try_emplace({r.target.hash, r.threads}, std::move(r));
  }
  std::vector<database::Record> records;
  for (auto& [key, record] : best) records.push_back(std::move(record));
  return records;
}

// Rows of other machines, of these workloads or, where none were asked for, of all. Returns how many.
size_t add_foreign(const BestArguments& a, const database::Store& store, const Lookup& lookup,
                   Json& list) {
  std::vector<Workload> workloads;
  if (!a.common.specs.empty()) workloads = read_workloads(a.common);
  if (a.common.specs.empty()) {
    for (const database::WorkloadSummary& s : store.workloads()) {
      try {
        workloads.push_back(parse_workload(s.canonical));
        workloads.back().label = s.label;
      } catch (const SpecError&) {
        continue;  // of an operator that a later version knows
      }
    }
  }
  size_t count = 0;
  for (const Workload& w : workloads) {
    for (const database::Record& r : foreign_records(store, lookup, w.hash())) {
      ++count;
      if (a.all) list.push_back(foreign_row(w, r, a.common.json));
    }
  }
  return count;
}

Json own_row(const Workload& w, const database::Store& store, const Lookup& lookup, bool json) {
  database::BestResult best = lookup.best_or_predicted(store, w);
  const bool hit = best.record.has_value();
  // What is known of a kernel that must not run is shown all the same.
  if (!hit) best.record = lookup.best_fact(store, w);
  std::string spec = spec_to_inline(parse_spec(w.canonical));
  if (!json && !hit) fmt::print("{:<46} miss: {}\n", spec, best.miss);
  if (!json && best.record) {
    double s = best.record->median_seconds;
    std::string speed = best.record->offline ? "predicted, not measured"
                                             : fmt::format("{:>8.1f} GFLOP/s", w.flops / s * 1e-9);
    fmt::print("{:<46} {:>12} {}  {} {}\n", spec, readable_seconds(s), speed, best.record->sketch,
               best.record->config);
    if (!best.near.empty()) fmt::print("  near: {}\n", best.near);
  }
  database::DispatchResult dispatch = lookup.dispatch(store, w);
  if (!json) print_dispatch(dispatch);
  Json row = {{"spec", spec}, {"name", w.label}, {"workload", w.hash()}, {"hit", hit}};
  if (!hit) row["miss"] = best.miss;
  if (!best.near.empty()) row["near"] = best.near;
  if (best.record) {
    bool predicted = best.record->offline;
    double seconds = best.record->median_seconds;
    row["predicted"] = predicted;
    row["seconds"] = predicted ? Json(nullptr) : Json(seconds);
    row["gflops"] = predicted ? Json(nullptr) : Json(w.flops / seconds * 1e-9);
    if (predicted) row["predicted_seconds"] = seconds;
    row["threads"] = best.record->threads;
    row["sketch"] = best.record->sketch;
    row["config"] = Json::parse(best.record->config, nullptr, false);
  }
  if (dispatch.table) row["dispatch"] = json_of(dispatch);
  return row;
}

int run_best(const BestArguments& a) {
  database::Store store = open_store(a.common);
  Lookup lookup(a.common);
  Json list = Json::array();
  for (const Workload& w : wanted(a.common, store, lookup)) {
    list.push_back(own_row(w, store, lookup, a.common.json));
  }
  const size_t foreign = add_foreign(a, store, lookup, list);
  const size_t hidden = a.all ? 0 : foreign;
  if (a.common.json) {
    print_json({{"results", list}, {"hidden", hidden}});
  } else if (hidden > 0) {
    fmt::print("{} row{} of other machines {} hidden; --all shows {}\n", hidden,
               hidden == 1 ? "" : "s", hidden == 1 ? "is" : "are", hidden == 1 ? "it" : "them");
  }
  return kDone;
}

}  // namespace

void add_best(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<BestArguments>();
  CLI::App* sub = app.add_subcommand("best", "Shows the best kernels that the database holds");
  Wants wants;
  wants.specs_required = false;
  wants.runs_kernels = false;
  wants.cuda = true;
  wants.trust = true;
  add_common(*sub, a->common, wants);
  sub->add_flag("--all", a->all, "Show what other machines have measured as well");
  sub->footer("Example:\n  tune-cli best --db kernels.db");
  runners["best"] = [a] { return run_best(*a); };
}

}  // namespace tilewright::cli
