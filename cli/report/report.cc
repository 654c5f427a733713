// tune-cli report: one page about what tuning found out.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/output/output_file.h"
#include "cli/report/live_report.h"
#include "cli/report/report_data.h"
#include "cli/report/report_page.h"
#include "cli/run/model_file.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ReportArguments {
  CommonOptions common;
  std::string out = "tilewright-report.html";
  std::vector<std::string> benches;  // files
  bool serve = false;
  int port = 8750;
};

// A config as JSON. Findings of a run may hold any text.
Json config_json(const std::string& config) {
  Json json = Json::parse(config, nullptr, false);
  return json.is_discarded() ? Json(config) : json;
}

// Kernels of one contest: seconds by the baseline's name.
Json baselines_json(const ReportWorkload& w) {
  if (!w.bench) return nullptr;
  Json seconds = Json::object();
  for (const ReportBaseline& b : w.bench->baselines) seconds[b.name] = b.seconds;
  return {{"seconds", w.bench->seconds},
          {"baselines", seconds},
          {"disturbed", !w.bench->disturbed.empty()}};
}

Json finalists_json(const ReportFinalists& finalists) {
  Json list = Json::array();
  for (const ReportFinalist& f : finalists.list) {
    list.push_back({{"seconds", f.time.median},
                    {"low", f.time.low},
                    {"high", f.time.high},
                    {"samples", f.time.samples},
                    {"winner", f.winner},
                    {"default", f.is_default},
                    {"sketch", f.sketch},
                    {"config", config_json(f.config)}});
  }
  return {{"in_turns", finalists.in_turns}, {"list", list}};
}

// Null where the trials do not tell.
Json knobs_json(const KnobImportance& knobs) {
  if (!knobs.missing.empty()) return nullptr;
  Json list = Json::array();
  for (const KnobShare& k : knobs.knobs) list.push_back({{"knob", k.knob}, {"share", k.share}});
  return {{"explained", knobs.explained}, {"list", list}};
}

Json predictions_json(const Predictions& predictions) {
  if (!predictions.missing.empty()) return nullptr;
  return {{"trials", predictions.trials.size()},
          {"rank_correlation", predictions.rank_correlation}};
}

Json spent_json(const ReportTime& time) {
  if (time.elapsed <= 0) return nullptr;
  return {{"elapsed", time.elapsed},         {"proposing", time.spent.proposing},
          {"building", time.spent.building}, {"reference", time.spent.reference},
          {"checks", time.spent.checks},     {"timing", time.spent.timing}};
}

Json workload_json(const ReportWorkload& w) {
  Json invalid = Json::object();
  for (const ReportFailure& f : w.failures) invalid[f.cause] = f.count;
  Json best = nullptr;
  if (const ReportConfig* c = w.best()) {
    best = {{"seconds", c->seconds},
            {"gflops", w.flops / c->seconds * 1e-9},
            {"roofline_fraction", w.roof.seconds / c->seconds},
            {"sketch", c->sketch},
            {"config", Json::parse(c->config)}};
    if (!w.above_roof.empty()) best["roofline_cause"] = w.above_roof;
  }
  Json predicted = Json::array();
  for (const ReportConfig& c : w.predicted) {
    predicted.push_back({{"predicted_seconds", c.seconds},
                         {"sketch", c.sketch},
                         {"config", Json::parse(c.config)}});
  }
  return {{"spec", w.spec},
          {"predicted", predicted},
          {"name", w.label},
          {"workload", w.hash},
          {"threads", w.threads},
          {"trials", w.trials.size()},
          {"valid", w.valid()},
          {"invalid", invalid},
          {"best", best},
          {"default_seconds", w.default_seconds > 0 ? Json(w.default_seconds) : Json(nullptr)},
          {"bench", baselines_json(w)},
          {"finalists", finalists_json(w.finalists)},
          {"knobs", knobs_json(w.knobs)},
          {"predictions", predictions_json(w.predictions)},
          {"spent_s", spent_json(w.time)}};
}

// A row of bench that meets no workload of the report may be a mistake.
void note_unused(const CommonOptions& options, const ReportBenches& benches, const Report& report) {
  for (const auto& row : benches.rows) {
    const auto& [spec, threads] = row.first;
    const bool used =
        std::any_of(report.workloads.begin(), report.workloads.end(),
                    [&row](const auto& w) { return std::pair(w.spec, w.threads) == row.first; });
    if (used) continue;
    note(options, fmt::format("--bench: the report has no workload '{}' on {}", spec,
                              database::threads_text(threads)));
  }
}

int serve_report(const ReportArguments& a) {
  LiveReport live(a.common, read_benches(a.benches));
  LocalServer server(static_cast<uint16_t>(a.port),
                     [&](const std::string& path) { return live.answer(path); });
  note(a.common, "Ctrl-C ends it");
  std::cout << server.url() << std::endl;  // a program that reads it waits for the line
  server.run();
  return kDone;
}

int run_report(const ReportArguments& a) {
  database::Store store = open_store(a.common);
  const ReportBenches benches = read_benches(a.benches);
  Report report = gather_report(a.common, benches, store);
  note_unused(a.common, benches, report);
  std::string page = report_page(report);
  if (a.out == "-") {
    std::cout << page << std::flush;
    return kDone;
  }
  write_text_file(a.out, page);
  if (a.common.json) {
    Json list = Json::array();
    for (const ReportWorkload& w : report.workloads) list.push_back(workload_json(w));
    print_json({{"out", a.out},
                {"bytes", page.size()},
                {"target", report.target},
                {"identity", report.identity.hash},
                {"runs", report.runs.size()},
                {"results", list}});
  } else {
    note(a.common, fmt::format("wrote {}: {} workloads", a.out, report.workloads.size()));
  }
  return kDone;
}

}  // namespace

void add_report(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<ReportArguments>();
  CLI::App* sub = app.add_subcommand(
      "report", "Writes an HTML page of what tuning found, or serves it during a search");
  Wants wants;
  wants.specs_required = false;
  wants.runs_kernels = false;
  wants.threads = false;
  wants.cuda = true;
  wants.trust = true;
  add_common(*sub, a->common, wants);
  sub->add_option("--threads", a->common.threads,
                  "Only kernels tuned for so many threads; 0: any number")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  sub->add_option("-o,--out", a->out, "HTML file, or '-' for standard output")
      ->capture_default_str();
  sub->add_option("--bench", a->benches, "Baselines to show: what 'bench --json' printed")
      ->type_name("FILE")
      ->take_all()
      ->allow_extra_args(false);
  sub->add_flag("--serve", a->serve,
                "Serve the page on 127.0.0.1 instead; it follows a search that runs");
  sub->add_option("--port", a->port, "Port of --serve; 0: any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  sub->footer(
      "Examples:\n  tune-cli report\n  tune-cli report --serve --db kernels.db\n  tune-cli report "
      "-o report.html --db kernels.db\n"
      "  tune-cli report -o matmul.html matmul:m=512,n=768,k=768 --threads 1\n"
      "  tune-cli report model.tw --db kernels.db");
  runners["report"] = [a] {
    if (a->serve && a->common.json) {
      throw UsageError("--serve prints its address, no document; leave --json away");
    }
    if (names_model(a->common)) a->common.specs = workloads_of_model(a->common);
    if (a->serve) return serve_report(*a);
    if (a->out == "-" && a->common.json) {
      throw UsageError("--json and '-o -' both need standard output; name a file");
    }
    return run_report(*a);
  };
}

}  // namespace tilewright::cli
