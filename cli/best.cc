// tune-cli best: what the database holds as best, one row a workload.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/dispatch.h"
#include "cli/lookup.h"
#include "cli/progress.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

// The workloads that were asked for, or all that were tuned on this machine.
std::vector<Workload> wanted(const CommonOptions& options, const database::Store& store,
                             const Lookup& lookup) {
  if (!options.specs.empty()) return read_workloads(options);
  return stored_workloads(store, lookup);
}

int run_best(const CommonOptions& options) {
  database::Store store = open_store(options);
  Lookup lookup(options);
  Json list = Json::array();
  for (const Workload& w : wanted(options, store, lookup)) {
    database::BestResult best = lookup.best_or_predicted(store, w);
    const bool hit = best.record.has_value();
    // What is known of a kernel that must not run is shown all the same.
    if (!hit) best.record = lookup.best_fact(store, w);
    std::string spec = spec_to_inline(parse_spec(w.canonical));
    if (!options.json && !hit) fmt::print("{:<46} miss: {}\n", spec, best.miss);
    if (!options.json && best.record) {
      double s = best.record->median_seconds;
      std::string speed = best.record->offline
                              ? "predicted, not measured"
                              : fmt::format("{:>8.1f} GFLOP/s", w.flops / s * 1e-9);
      fmt::print("{:<46} {:>12} {}  {} {}\n", spec, readable_seconds(s), speed, best.record->sketch,
                 best.record->config);
    }
    database::DispatchResult dispatch = lookup.dispatch(store, w);
    if (!options.json) print_dispatch(dispatch);
    Json row = {{"spec", spec}, {"name", w.label}, {"workload", w.hash()}, {"hit", hit}};
    if (!hit) row["miss"] = best.miss;
    if (best.record) {
      bool predicted = best.record->offline;
      double seconds = best.record->median_seconds;
      row["predicted"] = predicted;
      row["seconds"] = predicted ? Json(nullptr) : Json(seconds);
      row["gflops"] = predicted ? Json(nullptr) : Json(w.flops / seconds * 1e-9);
      if (predicted) row["predicted_seconds"] = seconds;
      row["sketch"] = best.record->sketch;
      row["config"] = Json::parse(best.record->config, nullptr, false);
    }
    if (dispatch.table) row["dispatch"] = json_of(dispatch);
    list.push_back(row);
  }
  if (options.json) print_json({{"results", list}});
  return kDone;
}

}  // namespace

void add_best(CLI::App& app, Runners& runners) {
  auto options = std::make_shared<CommonOptions>();
  CLI::App* sub = app.add_subcommand("best", "Shows the best kernels that the database holds");
  Wants wants;
  wants.specs_required = false;
  wants.runs_kernels = false;
  wants.cuda = true;
  wants.trust = true;
  add_common(*sub, *options, wants);
  sub->footer("Example:\n  tune-cli best --db kernels.db");
  runners["best"] = [options] { return run_best(*options); };
}

}  // namespace tilewright::cli
