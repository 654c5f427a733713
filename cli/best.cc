// tune-cli best: what the database holds as best, one row a workload.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/dispatch.h"
#include "cli/lookup.h"
#include "cli/progress.h"
#include "cli/table.h"

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
};

Json json_of(const Workload& w, const database::BestResult& best, bool hit) {
  Json row = {{"spec", spec_to_inline(parse_spec(w.canonical))},
              {"name", w.label},
              {"workload", w.hash()},
              {"hit", hit}};
  if (!hit) row["miss"] = best.miss;
  if (!best.record) return row;
  const bool predicted = best.record->offline;
  const double seconds = best.record->median_seconds;
  row["predicted"] = predicted;
  row["seconds"] = predicted ? Json(nullptr) : Json(seconds);
  row["gflops"] = predicted ? Json(nullptr) : Json(w.flops / seconds * 1e-9);
  if (predicted) row["predicted_seconds"] = seconds;
  row["sketch"] = best.record->sketch;
  row["config"] = Json::parse(best.record->config, nullptr, false);
  return row;
}

// Below the row of a workload: why its kernel does not run, what is not measured, and its config.
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
  if (configs && best.record) table.note(best.record->config);
}

int run_best(const BestArguments& a) {
  database::Store store = open_store(a.common);
  Lookup lookup(a.common);
  Json list = Json::array();
  Table table({"workload", "time", "GFLOP/s", "threads", "sketch"});
  for (const Workload& w : wanted(a.common, store, lookup)) {
    database::BestResult best = lookup.best_or_predicted(store, w);
    const bool hit = best.record.has_value();
    // What is known of a kernel that must not run is shown all the same.
    if (!hit) best.record = lookup.best_fact(store, w);
    const database::DispatchResult dispatch = lookup.dispatch(store, w);
    list.push_back(json_of(w, best, hit));
    if (dispatch.table) list.back()["dispatch"] = cli::json_of(dispatch);
    add_row(table, w, best, hit, a.configs);
    for (const std::string& line : dispatch_lines(dispatch)) table.note(line);
  }
  if (a.common.json) {
    print_json({{"results", list}});
  } else {
    fmt::print("{}", table.text(terminal_width(STDOUT_FILENO)));
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
  sub->add_flag("--config", a->configs, "The configs, too");
  sub->footer("Examples:\n  tune-cli best --db kernels.db\n  tune-cli best --config --json");
  runners["best"] = [a] { return run_best(*a); };
}

}  // namespace tilewright::cli
