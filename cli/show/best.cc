// tune-cli best: what the database holds as best, one row a workload.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/lookup.h"
#include "cli/output/dispatch.h"
#include "cli/output/progress.h"
#include "cli/output/table.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

// The workloads that were asked for, or all that were tuned on this machine.
std::vector<Workload> wanted(const CommonOptions& options, const database::Store& store,
                             const Lookup& lookup) {
  if (!options.specs.empty()) return read_workloads(options);
  return stored_workloads(store, lookup);
}

struct BestArguments {
  CommonOptions common;
  bool configs = false;
  bool all = false;
};

// Under the row of a workload: why its kernel does not run, what is not measured, and its config.
void add_row(Table& table, const Workload& w, const database::BestResult& best, bool hit,
             bool configs) {
  const std::string spec = spec_to_inline(parse_spec(w.canonical));
  if (best.record) {
    const bool predicted = best.record->offline;
    const double seconds = best.record->median_seconds;
    table.row({spec, readable_seconds(seconds),
               predicted ? "-" : fmt::format("{:.1f}", w.flops / seconds * 1e-9),
               std::to_string(best.record->threads), best.record->sketch});
    if (predicted) table.note("predicted, not measured");
  } else {
    table.row({spec, "-", "-", "-", "-"});
  }
  if (!hit) table.note("miss: " + best.miss);
  if (!best.near.empty()) table.note("near: " + best.near);
  if (!best.passed_over.empty()) table.note("default: " + best.passed_over);
  if (configs && best.record) table.note(best.record->config);
}

Json best_json(const Workload& w, const database::BestResult& best, bool hit) {
  Json row = {{"spec", spec_to_inline(parse_spec(w.canonical))},
              {"name", w.label},
              {"workload", w.hash()},
              {"hit", hit}};
  if (!hit) row["miss"] = best.miss;
  if (!best.near.empty()) row["near"] = best.near;
  if (!best.passed_over.empty()) row["passed_over"] = best.passed_over;
  if (!best.record) return row;
  const bool predicted = best.record->offline;
  const double seconds = best.record->median_seconds;
  row["predicted"] = predicted;
  row["seconds"] = predicted ? Json(nullptr) : Json(seconds);
  row["gflops"] = predicted ? Json(nullptr) : Json(w.flops / seconds * 1e-9);
  if (predicted) row["predicted_seconds"] = seconds;
  row["threads"] = best.record->threads;
  row["sketch"] = best.record->sketch;
  row["config"] = Json::parse(best.record->config, nullptr, false);
  return row;
}

// A row of another machine: the best kernel that it measured on so many threads.
Json foreign_row(const Workload& w, const database::Record& best, bool configs, Table& table) {
  const std::string spec = spec_to_inline(parse_spec(w.canonical));
  const database::TargetIdentity& target = best.target;
  const double gflops = w.flops / best.median_seconds * 1e-9;
  table.row({spec, readable_seconds(best.median_seconds), fmt::format("{:.1f}", gflops),
             std::to_string(best.threads), best.sketch});
  table.note(fmt::format("on {} ({})", target.chip,
                         target.features.empty() ? "plain C" : target.features));
  if (configs) table.note(best.config);
  return {{"spec", spec},
          {"name", w.label},
          {"workload", w.hash()},
          {"seconds", best.median_seconds},
          {"gflops", gflops},
          {"threads", best.threads},
          {"sketch", best.sketch},
          {"config", Json::parse(best.config, nullptr, false)},
          {"machine", {{"chip", target.chip}, {"features", target.features}}}};
}

// The best kernels that other machines measured, one per target and number of threads.
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
                   std::vector<Workload> workloads, Json& list, Table& table) {
  if (a.common.specs.empty()) {
    workloads.clear();
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
      if (a.all) list.push_back(foreign_row(w, r, a.configs, table));
    }
  }
  return count;
}

int run_best(const BestArguments& a) {
  database::Store store = open_store(a.common);
  Lookup lookup(a.common);
  Json list = Json::array();
  Table table({"workload", "time", "GFLOP/s", "threads", "sketch"});
  // Once: standard input is read only once.
  const std::vector<Workload> workloads = wanted(a.common, store, lookup);
  for (const Workload& w : workloads) {
    database::BestResult best = lookup.best_or_predicted(store, w);
    const bool hit = best.record.has_value();
    // A kernel that must not run is shown all the same.
    if (!hit) best.record = lookup.best_fact(store, w);
    const database::DispatchResult dispatch = lookup.dispatch(store, w);
    list.push_back(best_json(w, best, hit));
    if (dispatch.table) list.back()["dispatch"] = cli::json_of(dispatch);
    add_row(table, w, best, hit, a.configs);
    for (const std::string& line : dispatch_lines(dispatch)) table.note(line);
  }
  const size_t foreign = add_foreign(a, store, lookup, workloads, list, table);
  const size_t hidden = a.all ? 0 : foreign;
  if (a.common.json) {
    print_json({{"results", list}, {"hidden", hidden}});
    return kDone;
  }
  fmt::print("{}", table.text(terminal_width(STDOUT_FILENO)));
  if (list.empty() && hidden == 0) {
    note(a.common,
         fmt::format("'{0}' has no kernel for this target; 'tune-cli tune SPEC --db {0}' makes one",
                     a.common.db));
  }
  if (hidden > 0) {
    fmt::print("{} row{} of other machines {} hidden; --all shows {}\n", hidden,
               hidden == 1 ? "" : "s", hidden == 1 ? "is" : "are", hidden == 1 ? "it" : "them");
  }
  return kDone;
}

}  // namespace

void add_best(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<BestArguments>();
  CLI::App* sub =
      app.add_subcommand("best", "Lists the best kernel of each workload in the database");
  Wants wants;
  wants.specs_required = false;
  wants.runs_kernels = false;
  wants.cuda = true;
  wants.trust = true;
  add_common(*sub, a->common, wants);
  sub->add_flag("--config", a->configs, "Also print the configs");
  sub->add_flag("--all", a->all, "Also list kernels measured on other machines");
  sub->footer("Examples:\n  tune-cli best --db kernels.db\n  tune-cli best --config --json");
  runners["best"] = [a] { return run_best(*a); };
}

}  // namespace tilewright::cli
